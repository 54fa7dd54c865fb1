"""onnxruntime's model packages: folders with a model in variants for several providers, and the files that variants share.

`paths` confines paths to the package, `json_text` bounds its JSON, and `manifest` reads it. `assets` has the shared files. `package` is
onnxruntime's ModelPackage, which `description` describes and `commit` writes; `context` selects a variant by `selection` and opens its
session.
"""
