"""`python -m planc`."""

from planc.cli import main

if __name__ == "__main__":
    main()
