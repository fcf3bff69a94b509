"""The kernel spec, its cache, and the verifier that checks it before it runs."""
