/** What `svc-cloud serve` needs for the notifications of triggers: a mail server, and where webhooks may go. */

import type { ReadFiles } from "../../../lib/base/files/files.ts";
import { messageOf, SvcError } from "../../../lib/base/error.ts";
import { Secret } from "../../../lib/base/secret.ts";
import { mailer, type MailServer } from "../../../lib/cloud/notifications/mailer.ts";
import type { SenderOptions } from "../../../lib/cloud/notifications/sender.ts";
import { PublicAddresses } from "../../../lib/wire/outward/public_addresses.ts";
import { UsageError, type Values } from "../../flags.ts";
import type { TRIGGER_FLAGS } from "./flags.ts";

export async function openTriggers(
  { smtp, smtpPasswordFile, smtpFrom, triggerAllow }: Values<typeof TRIGGER_FLAGS>,
  files: Pick<ReadFiles, "readTextFile">,
): Promise<SenderOptions> {
  const addresses = allowed(triggerAllow);
  if (smtp === "") {
    if (smtpPasswordFile === "" && smtpFrom === "") return { addresses };
    throw new UsageError(
      "--smtp-password-file and --smtp-from: wanted together with --smtp, found no --smtp",
    );
  }
  const url = URL.parse(smtp);
  if (!url || !["smtp:", "smtps:"].includes(url.protocol) || url.hostname === "" || url.password !== "") {
    // It may hold a password.
    throw new UsageError(
      "--smtp: found something else (not shown), wanted smtp://USER@HOST:PORT, and the password in --smtp-password-file",
    );
  }
  const from = smtpFrom || decodeURIComponent(url.username);
  if (!/^[^\s@<>]+@[^\s@<>]+$/.test(from)) {
    throw new UsageError(`--smtp-from: found "${from}", wanted an e-mail address`);
  }
  return { addresses, mail: mailer({ url, from, password: await passwordIn(smtpPasswordFile, files) }) };
}

async function passwordIn(
  file: string,
  files: Pick<ReadFiles, "readTextFile">,
): Promise<MailServer["password"]> {
  if (file === "") return undefined;
  const password = (await files.readTextFile(file)).trim();
  if (password !== "") return new Secret(password);
  throw new SvcError("invalid_argument", `--smtp-password-file: ${file} is empty, wanted a password`);
}

function allowed(written: readonly string[]): PublicAddresses {
  try {
    // A variable of the environment has one text.
    return new PublicAddresses(
      written.flatMap((one) => one.split(",")).map((one) => one.trim()).filter(Boolean),
    );
  } catch (error) {
    throw new UsageError(`--trigger-allow: ${messageOf(error)}`);
  }
}
