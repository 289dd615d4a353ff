# Anthropic's SDK for Python as its documentation shows it: all it knows of the key and of the server is in variables.
# Arguments: actions `whole[:MODEL]`, `stream[:MODEL]`, `count`; prints one line of JSON for each.
import json, os, subprocess, sys, time
import anthropic

client = anthropic.Anthropic()
message = {"role": "user", "content": "hello"}

for action in sys.argv[1:]:
    do, _, model = action.partition(":")
    asked = {"model": model or "stand-in", "max_tokens": 99, "messages": [message]}
    said = {"do": action}
    try:
        if do == "whole":
            answer = client.messages.create(**asked)
            said |= {"text": answer.content[0].text, "in": answer.usage.input_tokens, "out": answer.usage.output_tokens}
        elif do == "count":
            said |= {"in": client.messages.count_tokens(model=asked["model"], messages=[message]).input_tokens}
        else:
            times = []
            with client.messages.stream(**asked) as stream:
                for text in stream.text_stream:
                    times.append(time.time() * 1000)
                answer = stream.get_final_message()
            said |= {"text": answer.content[0].text, "in": answer.usage.input_tokens, "out": answer.usage.output_tokens, "times": times}
    except anthropic.APIError as error:
        said |= {"error": type(error).__name__, "status": getattr(error, "status_code", None), "message": str(error)}
    print(json.dumps(said), flush=True)

# Another program looks at this one, while it still holds all that it has ever held.
if "AFTER" in os.environ:
    subprocess.run(["sh", "-c", os.environ["AFTER"]], check=True)
