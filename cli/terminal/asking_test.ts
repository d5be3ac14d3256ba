import { assertEquals } from "@std/assert";
import { askHidden } from "./asking.ts";

/** What a person gets who types this and then nothing, and what the terminal does meanwhile. */
function typed(text: string) {
  const bytes = [...new TextEncoder().encode(text)];
  const done: unknown[] = [];
  const terminal = {
    setRaw: (isRaw: boolean) => void done.push(isRaw),
    readSync: (into: Uint8Array) => {
      const [byte] = bytes.splice(0, 1);
      if (byte === undefined) return null;
      into[0] = byte;
      return 1;
    },
  };
  const answer = askHidden({ writeError: (text) => void done.push(text) }, "Key: ", terminal);
  return { answer, done };
}

Deno.test("askHidden: a line as it is typed, with letters taken back, or nothing after Ctrl-C and Ctrl-D", () => {
  const cases: [text: string, wanted: string | undefined][] = [
    ["secret\r", "secret"],
    ["secret\nmore\n", "secret"],
    ["secrets\x7f\r", "secret"],
    ["\x7f\x7fa\r", "a"],
    ["secrets\b\r", "secret"],
    ["key\u{1f511}\u{1f511}\x7f\r", "key\u{1f511}"],
    ["wrong\x15right\r", "right"],
    ["Schlüßel €\r", "Schlüßel €"],
    ["\r", ""],
    ["secret", "secret"],
    ["", ""],
    ["secret\x03\r", undefined],
    ["secret\x04\r", undefined],
  ];
  for (const [text, wanted] of cases) {
    const { answer, done } = typed(text);
    assertEquals([answer, done], [wanted, ["Key: ", true, false, "\n"]], JSON.stringify(text));
  }
});
