/** Sends mails over the operator's SMTP server, with the published library. */

import { createTransport } from "nodemailer";
import { messageOf, SvcError } from "../../base/error.ts";
import type { Secret } from "../../base/secret.ts";

export interface MailServer {
  /** `smtp://user@host:587` or `smtps://user@host:465`. */
  readonly url: URL;
  readonly password?: Secret;
  /** The sender. */
  readonly from: string;
}

export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  /** The same for every attempt. */
  readonly id: string;
}

export type SendMail = (mail: Mail, timeoutMs: number) => Promise<void>;

const PORTS: { readonly [scheme: string]: number } = { "smtp:": 587, "smtps:": 465 };
const REFUSED_MIN = 500;
/** The commands whose refusal is about this mail; that of another one is about the server, its settings or the day. */
const OF_MAIL = ["RCPT TO", "DATA"];
/** Refusals that are about what came before: a wrong order, and encryption or a login that the server wants. */
const OF_SESSION = [503, 530, 538];

/** Throws `permission_denied` for a mail that the server refuses for good, and `unavailable` if another try may help. */
export function mailer({ url, password, from }: MailServer): SendMail {
  const user = decodeURIComponent(url.username);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const isHere = ["localhost", "127.0.0.1", "::1"].includes(host);
  const domain = from.slice(from.lastIndexOf("@") + 1);
  return async ({ to, subject, text, id }, timeoutMs) => {
    const transport = createTransport({
      host,
      port: Number(url.port || PORTS[url.protocol]),
      secure: url.protocol === "smtps:",
      // The library's own choice on a computer without a domain, [127.0.0.1], is refused by many servers.
      name: domain.includes(".") ? domain : undefined,
      // Nobody stands between here and here, and servers on this computer usually sign their certificate themselves.
      tls: isHere ? { rejectUnauthorized: false } : undefined,
      // A password is sent to another computer only over TLS.
      requireTLS: user !== "" && !isHere,
      auth: user === "" ? undefined : { user, pass: password?.reveal() ?? "" },
      connectionTimeout: timeoutMs,
      greetingTimeout: timeoutMs,
      socketTimeout: timeoutMs,
      disableFileAccess: true,
      disableUrlAccess: true,
    });
    try {
      const messageId = `<${id}@${domain}>`;
      await transport.sendMail({ from, to: { name: "", address: to }, subject, text, messageId });
    } catch (cause) {
      const { responseCode = 0, command = "" } = cause as { responseCode?: number; command?: string };
      const isFinal = responseCode >= REFUSED_MIN && OF_MAIL.includes(command) &&
        !OF_SESSION.includes(responseCode);
      throw new SvcError(
        isFinal ? "permission_denied" : "unavailable",
        `the mail server: ${messageOf(cause)}`,
        {
          cause,
        },
      );
    } finally {
      transport.close();
    }
  };
}
