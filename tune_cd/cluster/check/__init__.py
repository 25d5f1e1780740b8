"""Checks a cluster file before anything is started or billed: `python -m tune_cd.cluster check FILE...`.

`documents` reads files. Rules are functions from a document to findings: `common` has those for several kinds of file,
`ray_up` and `kuberay` those for one, `versions` compares files. `command` applies them and prints. There are rules for
mistakes that fail silently or cost money; fields are left to validators that exist: Ray's, botocore's, cfn-lint's, and
`kubectl create --dry-run=server`.
"""
