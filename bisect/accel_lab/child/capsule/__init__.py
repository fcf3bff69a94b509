"""A job's run on Inductor with a sample of its calls checked in place; what fails is kept as a capsule."""
