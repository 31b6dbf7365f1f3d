"""``python -m trie_service`` is ``trie-service``."""

from trie_service.server import main

main()
