"""Checks a cluster file before anything is started or billed: `python -m tune_cd.cluster check FILE...`.

`documents` reads files. Rules are functions from a document to findings: `common` has the rules for several kinds of
file, `ray_up` and `kuberay` those for one kind, `versions` compares files. `command` applies them and prints. The rules
cover mistakes that fail silently or cost money. Fields are left to existing validators: Ray's, botocore's, and
`kubectl create --dry-run=server`.
"""
