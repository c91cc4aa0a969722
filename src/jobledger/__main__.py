"""Runs the command line with `python -m jobledger`."""

from jobledger.adapters.cli.app import main

if __name__ == "__main__":
    main()
