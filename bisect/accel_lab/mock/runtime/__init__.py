"""The runtime: device memory, transfers, host calls, and the device that torch sees."""
