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
/** The server refuses this mail for good. */
const REFUSED_MIN = 500;

/** Throws `permission_denied` for a mail that the server refuses for good, and `unavailable` otherwise. */
export function mailer({ url, password, from }: MailServer): SendMail {
  const user = decodeURIComponent(url.username);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const isHere = ["localhost", "127.0.0.1", "::1"].includes(host);
  return async ({ to, subject, text, id }, timeoutMs) => {
    const transport = createTransport({
      host,
      port: Number(url.port || PORTS[url.protocol]),
      secure: url.protocol === "smtps:",
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
      const messageId = `<${id}@${from.slice(from.lastIndexOf("@") + 1)}>`;
      await transport.sendMail({ from, to: { name: "", address: to }, subject, text, messageId });
    } catch (cause) {
      const { responseCode = 0, code } = cause as { responseCode?: number; code?: string };
      const isFinal = responseCode >= REFUSED_MIN && code !== "EAUTH";
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
