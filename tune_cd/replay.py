"""`python -m tune_cd.replay`: see `--help`."""

if __name__ == "__main__":  # before the imports, during which Ctrl-C is quiet as well
    from tune_cd.process import run

    run("tune_cd.landscapes.replay")
