"""``python -m trie_service.admin`` is ``trie-admin``."""

from trie_service.admin import main

if __name__ == "__main__":
    main()
