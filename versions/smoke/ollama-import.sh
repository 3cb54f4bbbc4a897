# Prints the version of Ollama. Without a server it also prints a warning, which is not a failure.
ollama --version 2>&1
