"""Generated code of the contract: run `make proto` after a change below proto/, never edit it here."""
