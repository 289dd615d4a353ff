"""A stand-in for the APIs of models, on loopback: Anthropic's Messages, OpenAI's Responses and Chat Completions, and
Gemini's generateContent, each streamed or whole.

It plays a script: one tool call per step, then a final word. Agents name their tools differently, so each call is made
from the list of tools that the agent sends, by name and by the names of its parameters. The step follows from the
conversation, which agents send whole: it is the number of tool results in it. A request without a tool that runs
commands (a title, a summary, a check of the key) gets a short word.

    model.py SCRIPT LOG     SCRIPT: JSON, a list of steps {"do": "read"|"run"|"edit"|"write", ...}
                            LOG: one JSON object per line and request: path, agent's tools, last result, answer

The first line of its output is the port.
"""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FINAL = "The kennel round is over."
SIDE = "Kennel"

# Names of tools for each kind of step, the best first; compared in lower case, after the last "__" or ".".
TOOLS = {
    "read": ["read", "read_file", "view"],
    "run": ["bash", "run_shell_command", "shell_command", "exec_command", "shell", "local_shell"],
    "edit": ["edit", "replace", "str_replace", "apply_patch", "text_editor"],
    "write": ["write", "write_file", "create_file", "apply_patch", "text_editor"],
}
# Names of parameters for each part of a step.
PARAMETERS = {
    "path": ["file_path", "filepath", "absolute_path", "path", "target_file"],
    "command": ["command", "cmd"],
    "old": ["old_string", "oldstring", "old_str", "before"],
    "new": ["new_string", "newstring", "new_str", "after"],
    "content": ["content", "contents", "file_text"],
}


def short(name):
    return re.split(r"__|\.", name)[-1].lower()


def find(kind, tools):
    for wanted in TOOLS[kind]:
        for name in tools:
            if short(name) == wanted:
                return name
    return None


def patch(step):
    """The step in the format of Codex's apply_patch."""
    if step["do"] == "write":
        lines = "".join(f"+{line}\n" for line in step["content"].splitlines())
        return f"*** Begin Patch\n*** Add File: {step['path']}\n{lines}*** End Patch\n"
    return (
        f"*** Begin Patch\n*** Update File: {step['path']}\n@@\n-{step['old']}\n+{step['new']}\n*** End Patch\n"
    )


def in_shell(step):
    """The step as a shell command, for agents that have no tool for it."""
    if step["do"] == "read":
        return f"cat '{step['path']}'"
    if step["do"] == "edit":
        return f"sed -i 's/{step['old']}/{step['new']}/' '{step['path']}'"
    return f"printf '%s\\n' '{step['content']}' > '{step['path']}'"


def fill(step, schema):
    """Arguments of a call: what the step says, and a placeholder for other required parameters."""
    filled = {}
    properties = (schema or {}).get("properties", {})
    required = (schema or {}).get("required", [])
    for name, about in properties.items():
        for part, names in PARAMETERS.items():
            if name.lower() in names and part in step:
                value = step[part]
                filled[name] = ["bash", "-lc", value] if about.get("type") == "array" else value
        if name in ("input", "patch") and "path" in step:
            filled[name] = patch(step)
        if name in filled or name not in required:
            continue
        if "enum" in about:
            wanted = {"edit": "str_replace", "write": "create", "read": "view"}.get(step["do"])
            filled[name] = wanted if wanted in about["enum"] else about["enum"][0]
        else:
            kind = about.get("type", "string")
            filled[name] = {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}.get(
                kind, "a step of the round"
            )
    return filled


def in_words(script):
    """All steps in one answer, for an agent that takes edits and commands from the text (aider). Reading is not among
    them: such an agent sends the files with the question. Files that it was not given it refuses to write itself."""
    blocks = []
    for step in script:
        if step["do"] == "edit":
            edit = f"<<<<<<< SEARCH\n{step['old']}\n=======\n{step['new']}\n>>>>>>> REPLACE"
            blocks.append(f"{step['path'].split('/')[-1]}\n```\n{edit}\n```\n")
        elif step["do"] != "read":
            command = step["command"] if step["do"] == "run" else in_shell(step)
            blocks.append(f"```bash\n{command}\n```\n")
    return "\n".join(blocks) + "\n" + FINAL


class Turn:
    """What the model says next: a call of a tool, or a word."""

    def __init__(self, script, tools, results, question):
        """tools: name -> JSON schema, or None for a tool that takes free text."""
        self.name, self.arguments, self.text, self.step = None, None, SIDE, None
        shell = find("run", tools)
        if shell is None:
            if "SEARCH/REPLACE" in question:
                self.text, self.step = in_words(script), 0
            return
        self.step = results
        if results >= len(script):
            self.text = FINAL
            return
        step = script[results]
        name = find(step["do"], tools)
        if name is None:
            name, step = shell, {"do": "run", "command": in_shell(step)}
        self.name = name
        self.arguments = patch(step) if tools[name] is None else fill(step, tools[name])

    def said(self):
        return {"step": self.step, "tool": self.name, "arguments": self.arguments, "text": self.text}


def anthropic(body):
    tools = {tool["name"]: tool.get("input_schema") for tool in body.get("tools", []) if "name" in tool}
    results = [
        block.get("content")
        for message in body.get("messages", [])
        if isinstance(message.get("content"), list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]
    return tools, results


def anthropic_answer(turn, body):
    if turn.name:
        block = {"type": "tool_use", "id": f"toolu_{turn.step}", "name": turn.name, "input": turn.arguments}
    else:
        block = {"type": "text", "text": turn.text}
    stop = "tool_use" if turn.name else "end_turn"
    usage = {"input_tokens": 10, "output_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "id": f"msg_{turn.step}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "stand-in"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    if not body.get("stream"):
        return [message | {"content": [block], "stop_reason": stop}]
    if turn.name:
        empty = block | {"input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
    else:
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": turn.text}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def responses(body):
    tools = {}
    for tool in body.get("tools", []):
        if tool.get("type") == "function":
            tools[tool["name"]] = tool.get("parameters")
        elif tool.get("type") == "custom":
            tools[tool["name"]] = None
        elif tool.get("type") == "local_shell":
            tools["local_shell"] = {}
    items = body.get("input", [])
    items = items if isinstance(items, list) else []
    kinds = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
    return tools, [item.get("output") for item in items if item.get("type") in kinds]


def responses_answer(turn, body):
    number = turn.step or 0
    if turn.name and isinstance(turn.arguments, str):
        item = {"type": "custom_tool_call", "id": f"ctc_{number}", "call_id": f"call_{number}", "status": "completed"}
        item |= {"name": turn.name, "input": turn.arguments}
    elif turn.name:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
        item |= {"name": turn.name, "arguments": json.dumps(turn.arguments)}
    else:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 20,
    }
    whole = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "model": body.get("model", "stand-in"),
        "output": [item],
        "usage": usage,
    }
    if not body.get("stream"):
        return [whole]
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    started = item | {"status": "in_progress"}
    events = [{"type": "response.created", "response": begun}]
    if item["type"] == "message":
        started = started | {"content": []}
        part = {"type": "output_text", "text": "", "annotations": []}
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": started},
            {"type": "response.content_part.added", "part": part} | place,
            {"type": "response.output_text.delta", "delta": turn.text} | place,
            {"type": "response.output_text.done", "text": turn.text} | place,
        ]
    elif item["type"] == "function_call":
        place = {"item_id": item["id"], "output_index": 0}
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": started | {"arguments": ""}},
            {"type": "response.function_call_arguments.delta", "delta": item["arguments"]} | place,
            {"type": "response.function_call_arguments.done", "arguments": item["arguments"]} | place,
        ]
    else:
        events.append({"type": "response.output_item.added", "output_index": 0, "item": started | {"input": ""}})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": whole})
    for index, event in enumerate(events):
        event["sequence_number"] = index
    return events


def chat(body):
    functions = [tool.get("function", {}) for tool in body.get("tools") or []]
    tools = {function["name"]: function.get("parameters", {}) for function in functions if "name" in function}
    results = [message.get("content") for message in body.get("messages", []) if message.get("role") == "tool"]
    return tools, results


def chat_answer(turn, body):
    if turn.name:
        function = {"name": turn.name, "arguments": json.dumps(turn.arguments)}
        said = {"content": None, "tool_calls": [{"id": f"call_{turn.step}", "type": "function", "function": function}]}
    else:
        said = {"content": turn.text}
    said["role"] = "assistant"
    stop = "tool_calls" if turn.name else "stop"
    usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
    whole = {"id": f"chatcmpl-{turn.step}", "created": 1700000000, "model": body.get("model", "stand-in")}
    if not body.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": stop}
        return [whole | {"object": "chat.completion", "choices": [choice], "usage": usage}]
    for call in said.get("tool_calls", []):
        call["index"] = 0
    whole["object"] = "chat.completion.chunk"
    return [
        whole | {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        whole | {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]},
        whole | {"choices": [], "usage": usage},
    ]


def gemini(body):
    tools = {}
    for group in body.get("tools") or []:
        for tool in group.get("functionDeclarations", []):
            tools[tool["name"]] = tool.get("parametersJsonSchema") or tool.get("parameters") or {}
    results = [
        part["functionResponse"].get("response")
        for content in body.get("contents", [])
        for part in content.get("parts", [])
        if "functionResponse" in part
    ]
    return tools, results


def gemini_answer(turn, body):
    if turn.name:
        part = {"functionCall": {"id": f"call_{turn.step}", "name": turn.name, "args": turn.arguments}}
    elif body.get("generationConfig", {}).get("responseMimeType") == "application/json":
        part = {"text": json.dumps({"reasoning": "", "next_speaker": "user", "complexity_reasoning": "", "complexity_score": 1, "model_choice": "flash"})}
    else:
        part = {"text": turn.text}
    content = {"role": "model", "parts": [part]}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}
    return [{"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": usage}]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script, log, lock = [], None, threading.Lock()

    def log_message(self, *_):
        pass

    def note(self, **what):
        with self.lock:
            self.log.write(json.dumps({"method": self.command, "path": self.path, **what}) + "\n")
            self.log.flush()

    def whole(self, value, code=200):
        text = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def stream(self, events, named, done):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if named else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        if done:
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def do_HEAD(self):
        self.note()
        self.whole({})

    def do_GET(self):
        self.note()
        if self.path.split("?")[0].endswith("/models"):
            model = {"id": "stand-in", "object": "model", "created": 1700000000, "owned_by": "kennel"}
            return self.whole({"object": "list", "data": [model], "models": []})
        return self.whole({"error": {"type": "not_found", "message": "the stand-in has no such page"}}, 404)

    def do_POST(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            text = b""
            while size := int(self.rfile.readline(), 16):
                text += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(text)
        except ValueError:
            self.note(body=text[:200].decode("latin-1"))
            return self.whole({"error": {"message": "not JSON"}}, 400)
        path = self.path.split("?")[0]
        if path.endswith("/messages"):
            self.answer(body, anthropic, anthropic_answer, body.get("stream"), named=True)
        elif path.endswith("/responses"):
            self.answer(body, responses, responses_answer, body.get("stream"), named=True)
        elif path.endswith("/chat/completions"):
            self.answer(body, chat, chat_answer, body.get("stream"), done=True)
        elif path.endswith(":streamGenerateContent"):
            self.answer(body, gemini, gemini_answer, True)
        elif path.endswith(":generateContent"):
            self.answer(body, gemini, gemini_answer, False)
        elif path.endswith(":countTokens"):
            self.note()
            self.whole({"totalTokens": 10})
        elif path.endswith("/count_tokens"):
            self.note()
            self.whole({"input_tokens": 10})
        else:
            self.note(body=text[:500].decode("latin-1"))
            self.whole({"error": {"type": "not_found", "message": "the stand-in has no such call"}}, 404)

    def answer(self, body, understand, say, streamed, named=False, done=False):
        tools, results = understand(body)
        question = json.dumps(body)
        turn = Turn(self.script, tools, len(results), question)
        # An agent without tools sends what it has read in the question itself.
        last = results[-1:] if results or turn.step is None or turn.name else [body.get("messages")]
        last = json.dumps(last[0]) if last else None
        self.note(tools=sorted(tools), result=last, answer=turn.said(), body=body if "-v" in sys.argv else None)
        events = say(turn, body)
        if streamed:
            self.stream(events, named, done)
        else:
            self.whole(events[0])


def main():
    with open(sys.argv[1]) as script:
        Handler.script = json.load(script)
    Handler.log = open(sys.argv[2], "a")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
