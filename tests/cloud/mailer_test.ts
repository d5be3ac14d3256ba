/** Mails to servers as operators really have them: with certificates of their own, and particular about names. */

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { SystemClock } from "../../lib/base/clock.ts";
import { Secret } from "../../lib/base/secret.ts";
import { mailer } from "../../lib/cloud/notifications/mailer.ts";
import { newAuthority } from "../../lib/cloud/store/secrets/authority.ts";

const MAIL = { to: "you@example.com", subject: "rover is offline", text: "one", id: "1234" };

interface Heard {
  /** The lines, those by TLS with a mark. */
  readonly lines: string[];
}

/** A mail server on loopback whose certificate nobody else has signed. */
async function withOwnCertificate(
  { onlyTls, host = "127.0.0.1" }: { readonly onlyTls: boolean; readonly host?: string },
  run: (port: number, heard: Heard) => Promise<void>,
): Promise<void> {
  const { certificate: cert, privateKey: key } = await newAuthority(new SystemClock().nowMs());
  const lines: string[] = [];
  const talk = (socket: Socket | TLSSocket, mark: string) => {
    let [text, isData] = ["", false];
    socket.on("error", () => {});
    socket.on("data", (data: Uint8Array) => {
      text += new TextDecoder().decode(data);
      for (let end = text.indexOf("\r\n"); end >= 0; end = text.indexOf("\r\n")) {
        const line = text.slice(0, end);
        text = text.slice(end + 2);
        if (isData && line !== ".") continue;
        lines.push(mark + line);
        const isGreeting = line.startsWith("EHLO");
        const needsTls = onlyTls && mark === "" && line.startsWith("MAIL");
        if (isGreeting) {
          socket.write(mark === "" ? "250-test\r\n250 STARTTLS\r\n" : "250-test\r\n250 AUTH PLAIN\r\n");
        } else if (line.startsWith("AUTH")) socket.write("235 welcome\r\n");
        else if (needsTls) socket.write("530 Must issue a STARTTLS command first\r\n");
        else if (line === "STARTTLS") {
          socket.removeAllListeners("data");
          socket.write("220 go on\r\n");
          talk(new TLSSocket(socket as Socket, { isServer: true, cert, key }), "tls ");
          return;
        } else socket.write(line === "DATA" ? "354 go on\r\n" : "250 good\r\n");
        isData = line === "DATA";
      }
    });
  };
  const server = createServer((socket) => {
    socket.write("220 test\r\n");
    talk(socket, "");
  }).listen(0, host);
  await once(server, "listening");
  try {
    await run((server.address() as AddressInfo).port, { lines });
  } finally {
    server.close();
    await once(server, "close");
  }
}

for (const onlyTls of [false, true]) {
  Deno.test(`a server on this computer may have a certificate of its own${onlyTls ? ", and want TLS" : ""}`, () =>
    withOwnCertificate({ onlyTls }, async (port, { lines }) => {
      for (const host of ["127.0.0.1", "localhost"]) {
        lines.length = 0;
        await mailer({ url: new URL(`smtp://${host}:${port}`), from: "cloud@example.com" })(MAIL, 30_000);
        assertEquals(lines.slice(-2), ["tls DATA", "tls ."], lines.join("\n"));
      }
    }));
}

Deno.test("a server on this computer gets the password, too", () =>
  withOwnCertificate({ onlyTls: true }, async (port, { lines }) => {
    const url = new URL(`smtp://cloud@127.0.0.1:${port}`);
    await mailer({ url, password: new Secret("sesame"), from: "cloud@example.com" })(MAIL, 30_000);
    assertMatch(lines.join("\n"), /^tls AUTH PLAIN \S+$/m);
  }));

Deno.test("a server elsewhere has to prove its name before it gets anything", () =>
  withOwnCertificate({ onlyTls: false, host: "127.0.0.2" }, async (port, { lines }) => {
    const url = new URL(`smtp://cloud@127.0.0.2:${port}`);
    const send = mailer({ url, password: new Secret("sesame"), from: "cloud@example.com" });
    const error = await assertRejects(() => send(MAIL, 30_000));
    assertMatch((error as Error).message, /certificate/);
    assertEquals(lines.filter((line) => /AUTH|MAIL|DATA/.test(line)), []);
  }));

Deno.test("svc-cloud names the sender's domain to the server", () =>
  withOwnCertificate({ onlyTls: false }, async (port, { lines }) => {
    const greeted = async (from: string) => {
      lines.length = 0;
      await mailer({ url: new URL(`smtp://127.0.0.1:${port}`), from })(MAIL, 30_000);
      return lines.find((line) => line.startsWith("tls EHLO"));
    };
    assertEquals(await greeted("cloud@fleet.example.com"), "tls EHLO fleet.example.com");
    // A name without a domain says nothing: the library's own choice stays.
    assertMatch(await greeted("cloud@fleet") ?? "", /^tls EHLO (?!fleet$)\S+$/);
  }));
