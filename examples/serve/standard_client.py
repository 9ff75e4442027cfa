"""A completion by cria-serve with the standard library alone: standard_client.py [URL] [TEXT]"""

import json
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1"
text = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"
body = json.dumps({"prompt": text, "max_tokens": 60, "temperature": 0}).encode()
request = urllib.request.Request(
    f"{url}/completions", body, {"Content-Type": "application/json"}
)
with urllib.request.urlopen(request) as answer:
    print(text + json.load(answer)["choices"][0]["text"])
