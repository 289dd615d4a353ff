# OpenAI's SDK for Python as its documentation shows it: all it knows of the key and of the server is in variables.
# Arguments: actions `whole[:MODEL]`, `stream[:MODEL]`, `responses[:MODEL]`, `responses-stream[:MODEL]`; prints one line of JSON
# for each.
import json, os, subprocess, sys, time
import openai

client = openai.OpenAI()

for action in sys.argv[1:]:
    do, _, model = action.partition(":")
    model = model or "stand-in"
    messages = [{"role": "user", "content": "hello"}]
    said = {"do": action}
    times, text, usage = [], "", None
    try:
        if do == "whole":
            answer = client.chat.completions.create(model=model, messages=messages)
            text, usage = answer.choices[0].message.content, answer.usage
            said |= {"in": usage.prompt_tokens, "out": usage.completion_tokens}
        elif do == "stream":
            options = {"include_usage": True}
            for chunk in client.chat.completions.create(model=model, messages=messages, stream=True, stream_options=options):
                usage = chunk.usage or usage
                if chunk.choices and chunk.choices[0].delta.content:
                    times.append(time.time() * 1000)
                    text += chunk.choices[0].delta.content
            said |= {"in": usage.prompt_tokens, "out": usage.completion_tokens, "times": times}
        elif do == "responses":
            answer = client.responses.create(model=model, input="hello")
            text, usage = answer.output_text, answer.usage
            said |= {"in": usage.input_tokens, "out": usage.output_tokens}
        else:
            for event in client.responses.create(model=model, input="hello", stream=True):
                if event.type == "response.output_text.delta":
                    times.append(time.time() * 1000)
                    text += event.delta
                if event.type == "response.completed":
                    usage = event.response.usage
            said |= {"in": usage.input_tokens, "out": usage.output_tokens, "times": times}
        said |= {"text": text}
    except openai.APIError as error:
        said |= {"error": type(error).__name__, "status": getattr(error, "status_code", None), "message": str(error)}
    print(json.dumps(said), flush=True)

# Another program looks at this one, while it still holds all that it has ever held.
if "AFTER" in os.environ:
    subprocess.run(["sh", "-c", os.environ["AFTER"]], check=True)
