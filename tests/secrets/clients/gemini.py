# Google's SDK for Python as its documentation shows it: all it knows of the key and of the server is in variables.
# Arguments: actions `whole[:MODEL]`, `stream[:MODEL]`; prints one line of JSON for each.
import json, os, subprocess, sys, time
from google import genai
from google.genai import errors

client = genai.Client()

for action in sys.argv[1:]:
    do, _, model = action.partition(":")
    model = model or "stand-in"
    said = {"do": action}
    times, text, usage = [], "", None
    try:
        if do == "whole":
            answer = client.models.generate_content(model=model, contents="hello")
            text, usage = answer.text, answer.usage_metadata
        else:
            for chunk in client.models.generate_content_stream(model=model, contents="hello"):
                usage = chunk.usage_metadata or usage
                if chunk.text:
                    times.append(time.time() * 1000)
                    text += chunk.text
            said |= {"times": times}
        said |= {"text": text, "in": usage.prompt_token_count, "out": usage.candidates_token_count}
    except errors.APIError as error:
        said |= {"error": type(error).__name__, "status": error.code, "message": str(error)}
    print(json.dumps(said), flush=True)

# Another program looks at this one, while it still holds all that it has ever held.
if "AFTER" in os.environ:
    subprocess.run(["sh", "-c", os.environ["AFTER"]], check=True)
