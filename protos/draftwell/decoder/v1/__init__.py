"""Wire contract of Draftwell, generated from the .proto files beside it."""
