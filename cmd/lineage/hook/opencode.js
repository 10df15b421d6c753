// Written by "lineage setup opencode"; "lineage setup opencode --undo" removes it.
import { spawn } from "node:child_process";

const program = "LINEAGE";

// hook never fails, and never waits longer than five seconds.
const hook = (event) => new Promise((resolve) => {
  let out = "";
  const child = spawn(program, ["hook", "opencode"], { stdio: ["pipe", "pipe", "ignore"], timeout: 5000 });
  child.on("error", () => resolve(""));
  child.on("close", () => resolve(out));
  child.stdin.on("error", () => {});
  child.stdout.on("data", (part) => { out += part; });
  child.stdin.end(JSON.stringify(event));
});

export const Lineage = async ({ client }) => {
  await hook({ hook_event_name: "SessionStart" });
  const mark = (name) => ({ tool, callID }) => hook({ hook_event_name: name, tool_name: tool, tool_use_id: callID });
  return {
    "tool.execute.before": mark("PreToolUse"),
    "tool.execute.after": mark("PostToolUse"),
    event: async ({ event }) => {
      if (event.type !== "session.idle") return;
      try {
        const { systemMessage } = JSON.parse(await hook({ hook_event_name: "Stop" }));
        await client.tui.showToast({ body: { message: systemMessage, variant: "info" } });
      } catch {} // nothing to say, or no terminal to say it on
    },
  };
};
