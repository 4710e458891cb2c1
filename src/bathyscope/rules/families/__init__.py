"""One file per family of rules; every `Rule` in a file of this folder is known to all commands."""
