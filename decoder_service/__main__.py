"""``python -m decoder_service`` is the ``decoder-service`` command."""

from decoder_service.server import main

main()
