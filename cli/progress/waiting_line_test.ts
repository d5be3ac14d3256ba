import { assertEquals, assertRejects } from "@std/assert";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { withWaitingLine } from "./waiting_line.ts";

class Terminal {
  text = "";

  constructor(private readonly wide: number | undefined = 80) {}

  write(text: string): void {
    this.text += text;
  }

  writeError(text: string): void {
    this.text += text;
  }

  draw(text: string): void {
    this.text += text;
  }

  show(text: string): void {
    this.text += text;
  }

  drawnColumns(): number | undefined {
    return this.wide;
  }
}

Deno.test("a silent command says after two seconds that it works, each second anew, until it writes", async () => {
  const [terminal, clock] = [new Terminal(), new FakeClock()];
  await withWaitingLine(terminal, clock, async () => {
    await clock.advance(1_999);
    assertEquals(terminal.text, "");
    await clock.advance(1);
    assertEquals(terminal.text, "\r\x1b[Kstill at work (2 s)");
    await clock.advance(1_000);
    assertEquals(terminal.text.split("\r\x1b[K").at(-1), "still at work (3 s)");
    terminal.write("done\n");
    assertEquals(terminal.text.split("\r\x1b[K").at(-1), "done\n");
    await clock.advance(60_000);
    terminal.writeError("bye\n");
  });
  assertEquals(terminal.text.split("\r\x1b[K").at(-1), "done\nbye\n");
});

Deno.test("the line goes when a command ends or fails in silence", async () => {
  const [terminal, clock] = [new Terminal(), new FakeClock()];
  await withWaitingLine(terminal, clock, () => clock.advance(2_000));
  assertEquals(terminal.text, "\r\x1b[Kstill at work (2 s)\r\x1b[K");
  const failing = withWaitingLine(terminal, clock, async () => {
    await clock.advance(2_000);
    throw new Error("no");
  });
  await assertRejects(() => failing, Error, "no");
  assertEquals(terminal.text.endsWith("\r\x1b[K"), true);
  const before = terminal.text;
  await clock.advance(60_000);
  assertEquals(terminal.text, before);
});

Deno.test("a quick command shows no line, and none is drawn where nobody could see it redrawn", async () => {
  for (const terminal of [new Terminal(), new Terminal(undefined)]) {
    const clock = new FakeClock();
    await withWaitingLine(terminal, clock, async () => {
      if (terminal.drawnColumns() === undefined) await clock.advance(60_000);
      terminal.write("one\n");
    });
    await clock.advance(60_000);
    assertEquals(terminal.text, "one\n");
  }
});

Deno.test("an output that can draw in part only has no line, and keeps its own ways to write", async () => {
  for (const lacking of ["draw", "show", "drawnColumns"] as const) {
    const [terminal, clock] = [new Terminal(), new FakeClock()];
    const output = Object.assign(terminal, { [lacking]: undefined });
    const { write, writeError } = output;
    await withWaitingLine(output, clock, async () => {
      assertEquals([output.write, output.writeError], [write, writeError], lacking);
      await clock.advance(60_000);
      output.write("one\n");
      output.writeError("two\n");
    });
    assertEquals([output.text, clock.pending], ["one\ntwo\n", 0], lacking);
  }
});
