"""The losslessness runs: drafted decoding against plain decoding, bit for bit. ``python -m tests.verify``."""
