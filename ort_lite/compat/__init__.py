"""What programs written for onnxruntime call beside sessions: module-level functions, allocators; and how they get it."""
