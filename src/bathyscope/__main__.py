"""`python -m bathyscope`, which `torchrun -m bathyscope` needs."""

from bathyscope.cli import main

if __name__ == "__main__":
    main()
