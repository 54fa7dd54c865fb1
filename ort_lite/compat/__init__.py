"""The onnxruntime API besides sessions: module-level functions, allocators, and the import switch."""
