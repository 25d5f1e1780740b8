"""What is wrong with a cluster file, before anything is started or billed: `python -m tune_cd.cluster check FILE...`.

`documents` reads files, `findings` is what a rule yields, `fields` compares values with a foreign schema. The rules are
in `every` (for all kinds), `launcher`, `starting`, `spot`, `aws`, `gcp` and `local` (`ray up`), `kuberay`, `versions` and
`cloudformation`; `rules` says which apply to which document, `command` prints. A rule is a function from a document to findings.
"""
