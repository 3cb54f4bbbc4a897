# Says the version of Ollama; without a server it warns, and that is no failure.
ollama --version 2>&1
