/** A program of others that reads the same format as ours: it takes lines of JSON, and answers each with one. */

export class OtherProgram {
  readonly #child: Deno.ChildProcess;
  readonly #requests: WritableStreamDefaultWriter<Uint8Array>;
  readonly #answers: ReadableStreamDefaultReader<string>;

  constructor(program: string, args: readonly string[] = []) {
    this.#child = new Deno.Command(program, { args: [...args], stdin: "piped", stdout: "piped" }).spawn();
    this.#requests = this.#child.stdin.getWriter();
    this.#answers = this.#child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  }

  /** Its answer. The next request is made once it is there. */
  async ask<T>(request: unknown): Promise<T> {
    await this.#requests.write(new TextEncoder().encode(`${JSON.stringify(request)}\n`));
    const pieces: string[] = [];
    while (!pieces.at(-1)?.endsWith("\n")) {
      const { value, done } = await this.#answers.read();
      if (done) throw new Error("the other program ended without an answer");
      pieces.push(value);
    }
    return JSON.parse(pieces.join(""));
  }

  /** Ends the program: its input is over. */
  async close(): Promise<void> {
    await this.#requests.close();
    await this.#answers.cancel();
    await this.#child.status;
  }
}
