"""The reference front end and back end: plain and slow, to tell the mistakes of the main ones by."""
