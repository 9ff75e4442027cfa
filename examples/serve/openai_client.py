"""A chat with cria-serve by OpenAI's package (pip install openai):
openai_client.py [URL] [TEXT]"""

import os
import sys

from openai import OpenAI

url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080/v1"
text = sys.argv[2] if len(sys.argv) > 2 else "Once upon a time"
client = OpenAI(base_url=url, api_key=os.environ.get("CRIA_API_KEY", "none"))
model = client.models.list().data[0].id

stream = client.completions.create(model=model, prompt=text, max_tokens=60, stream=True)
print(text, end="")
for part in stream:
    print(part.choices[0].text, end="", flush=True)
print()
