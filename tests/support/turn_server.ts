/** A TURN server of coturn on the loopback address, with one user. */

import type { IceServer } from "../../lib/wire/webrtc/ice_choice.ts";
import { freePort } from "./free_port.ts";

const [USERNAME, CREDENTIAL] = ["caller", "secret"];

/** Runs `test` with a server; `output` is what it has written. */
export async function withTurnServer(
  program: string,
  test: (server: IceServer, output: () => string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-turn" });
  const port = freePort();
  const file = `${folder}/turnserver.conf`;
  await Deno.writeTextFile(
    file,
    [
      "listening-ip=127.0.0.1",
      "relay-ip=127.0.0.1",
      `listening-port=${port}`,
      `pidfile=${folder}/pid`,
      `userdb=${folder}/users`,
      "log-file=stdout",
      "verbose",
      "lt-cred-mech",
      "realm=test",
      `user=${USERNAME}:${CREDENTIAL}`,
      "allow-loopback-peers",
      "no-tls",
      "no-dtls",
      "no-cli",
      "fingerprint",
      "",
    ].join("\n"),
  );

  const child = new Deno.Command(program, { args: ["-c", file], stdout: "piped", stderr: "null" }).spawn();
  let output = "";
  const started = Promise.withResolvers<void>();
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      output += text;
      if (output.includes("Total General servers")) started.resolve();
    }
    started.reject(new Error(`${program} has ended: ${output.slice(-2_000)}`));
  })();
  started.promise.catch(() => {});
  try {
    await started.promise;
    const server = { urls: [`turn:127.0.0.1:${port}`], username: USERNAME, credential: CREDENTIAL };
    await test(server, () => output);
  } finally {
    child.kill("SIGTERM");
    await child.status;
    await reading;
    await Deno.remove(folder, { recursive: true });
  }
}
