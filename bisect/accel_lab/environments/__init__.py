"""The version axis: which releases of torch there are, and an environment for each of them."""
