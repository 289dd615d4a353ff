// Anthropic's SDK for Node as its documentation shows it: all it knows of the key and of the server is in variables.
// $PACKAGE is the name under which it is installed. Arguments and output are as in anthropic.py.
const Anthropic = require(process.env.PACKAGE);

async function main() {
  const client = new Anthropic();
  for (const action of process.argv.slice(2)) {
    const [verb, model] = action.split(":");
    const asked = { model: model ?? "stand-in", max_tokens: 99, messages: [{ role: "user", content: "hello" }] };
    const said = { do: action };
    try {
      if (verb === "whole") {
        const answer = await client.messages.create(asked);
        Object.assign(said, { text: answer.content[0].text, in: answer.usage.input_tokens, out: answer.usage.output_tokens });
      } else {
        const times = [];
        const stream = client.messages.stream(asked);
        stream.on("text", () => times.push(Date.now()));
        const answer = await stream.finalMessage();
        Object.assign(said, { text: answer.content[0].text, in: answer.usage.input_tokens, out: answer.usage.output_tokens, times });
      }
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
