// OpenAI's SDK for Node as its documentation shows it: all it knows of the key and of the server is in variables.
// Arguments and output are as in openai.py.
const OpenAI = require("openai");

async function main() {
  const client = new OpenAI();
  for (const action of process.argv.slice(2)) {
    const [verb, name] = action.split(":");
    const model = name ?? "stand-in";
    const messages = [{ role: "user", content: "hello" }];
    const said = { do: action };
    let text = "", usage = null;
    const times = [];
    try {
      if (verb === "whole") {
        const answer = await client.chat.completions.create({ model, messages });
        [text, usage] = [answer.choices[0].message.content, answer.usage];
      } else if (verb === "stream") {
        for await (const chunk of await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })) {
          usage = chunk.usage ?? usage;
          const piece = chunk.choices[0]?.delta?.content;
          if (piece) { times.push(Date.now()); text += piece; }
        }
      } else if (verb === "responses") {
        const answer = await client.responses.create({ model, input: "hello" });
        [text, usage] = [answer.output_text, answer.usage];
      } else {
        for await (const event of await client.responses.create({ model, input: "hello", stream: true })) {
          if (event.type === "response.output_text.delta") { times.push(Date.now()); text += event.delta; }
          if (event.type === "response.completed") usage = event.response.usage;
        }
      }
      Object.assign(said, { text, in: usage.prompt_tokens ?? usage.input_tokens, out: usage.completion_tokens ?? usage.output_tokens });
      if (verb.endsWith("stream")) said.times = times;
    } catch (error) {
      Object.assign(said, { error: error.constructor.name, status: error.status ?? null, message: String(error.message) });
    }
    console.log(JSON.stringify(said));
  }
}
main().then(() => {
  // Another program looks at this one, while it still holds all that it has ever held.
  if (process.env.AFTER) require("node:child_process").execSync(process.env.AFTER, { stdio: "inherit" });
});
