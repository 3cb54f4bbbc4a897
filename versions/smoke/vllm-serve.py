"""Starts vLLM's server with the model in MODEL, requests one token, and stops the server."""

import json
import os
import subprocess
import sys
import time
import urllib.request

ADDRESS = "http://127.0.0.1:18000"
MODEL = os.environ["MODEL"]
options = ["--host", "127.0.0.1", "--port", "18000", "--max-model-len", "256", "--enforce-eager"]
server = subprocess.Popen(["vllm", "serve", MODEL, *options])
try:
    for _ in range(900):
        if server.poll() is not None:
            sys.exit(f"the server exited with {server.returncode}")
        try:
            urllib.request.urlopen(f"{ADDRESS}/health", timeout=2)
            break
        except OSError:
            time.sleep(1)
    else:
        sys.exit("the server did not answer within 15 minutes")
    body = json.dumps({"model": MODEL, "prompt": "The capital of France is", "max_tokens": 1})
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{ADDRESS}/v1/completions", body.encode(), head)
    with urllib.request.urlopen(request, timeout=300) as answer:
        print("token:", repr(json.load(answer)["choices"][0]["text"]))
finally:
    server.terminate()
    server.wait()
