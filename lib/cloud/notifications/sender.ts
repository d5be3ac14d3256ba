/**
 * Sends one notification: a signed request to a webhook, or a mail.
 *
 * Signatures follow the open Standard Webhooks specification, for which many languages have a library: the headers
 * `webhook-id`, `webhook-timestamp` and `webhook-signature`, which holds an HMAC-SHA256 of id, time and body for each
 * valid secret of the organization.
 */

import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import type { PublicAddresses } from "../../wire/outward/public_addresses.ts";
import { retryAfterMs } from "../../base/download/answer.ts";
import { type OutwardOptions, sendOnce } from "../../wire/outward/single_request.ts";
import type { Store } from "../store/store.ts";
import { type ClaimedDelivery, Deliveries } from "./deliveries.ts";
import type { SendMail } from "./mailer.ts";
import { findReceivers } from "./receivers.ts";
import { selectTriggers } from "../triggers/outbox.ts";
import type { TriggerNotification } from "../triggers/settings.ts";

export interface SenderOptions {
  /** Where webhooks may go. */
  readonly addresses: PublicAddresses;
  /** Absent if the operator has not configured a mail server. */
  readonly mail?: SendMail;
  readonly resolve?: OutwardOptions["resolve"];
}

/** An error that a retry cannot fix. */
export class Undeliverable extends Error {}

/** The receiver has requested the next attempt after this time. */
export class Busy extends Error {
  constructor(message: string, readonly afterMs: number) {
    super(message);
  }
}

const TIMEOUT_MS = 10_000;
const MAIL_TIMEOUT_MS = 20_000;
const AFTER_MS_MAX = 3600 * 1000;
/** Refusals of a client that another attempt may change. */
const PASSING = new Set([408, 409, 423, 425, 429]);

export class NotificationSender {
  constructor(
    private readonly store: Store,
    private readonly clock: Clock,
    private readonly options: SenderOptions,
  ) {}

  /** Resolves when the receiver has it. Throws `Undeliverable` if no further attempt helps. */
  async send(delivery: ClaimedDelivery, signal: AbortSignal): Promise<void> {
    const { kind, partId, trigger } = delivery;
    // If the trigger has been removed, or points elsewhere by now, nothing is sent.
    const configured = (await selectTriggers(this.store, partId)).find(({ name }) => name === trigger);
    const notification = await this.#notificationTo(delivery, configured?.notifications ?? []);
    if (!notification) throw new Undeliverable("the trigger no longer notifies this receiver");
    try {
      if (kind === "email") return await this.#mail(delivery);
      await this.#call(delivery, notification.auth, signal);
    } catch (error) {
      const { code, message } = SvcError.from(error);
      if (["permission_denied", "invalid_argument"].includes(code)) throw new Undeliverable(message);
      throw error;
    }
  }

  /** The notification of a trigger that has the delivery's receiver at present. */
  async #notificationTo(
    { kind, target, partId }: ClaimedDelivery,
    notifications: readonly TriggerNotification[],
  ): Promise<TriggerNotification | undefined> {
    for (const one of notifications) {
      if (one.type === kind && (await findReceivers(this.store, one, partId)).includes(target)) return one;
    }
    return undefined;
  }

  async #mail({ id, target, message: { subject, text } }: ClaimedDelivery): Promise<void> {
    const { mail } = this.options;
    if (!mail) {
      const hint = "whoever runs it names one with svc-cloud serve --smtp";
      throw new Undeliverable(`this control plane has no mail server: ${hint}`);
    }
    await mail({ to: target, subject, text, id }, MAIL_TIMEOUT_MS);
  }

  async #call(
    delivery: ClaimedDelivery,
    auth:
      | { readonly basic?: { readonly username: string; readonly password: { reveal(): string } } }
      | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { addresses, resolve } = this.options;
    const { message, target, organizationId, id } = delivery;
    const nowMs = this.clock.nowMs();
    const secrets = await this.store.transaction((sql) => new Deliveries(sql).secrets(organizationId, nowMs));
    const basic = auth?.basic && Buffer.from(`${auth.basic.username}:${auth.basic.password.reveal()}`);
    const headers = [
      ...message.headers,
      ["User-Agent", "svc-cloud"],
      ...signatureHeaders({ id, nowMs, body: message.body, secrets }),
      ...basic ? [["Authorization", `Basic ${basic.toString("base64")}`] as const] : [],
    ] as const;
    const request = {
      method: message.method,
      url: new URL(target),
      headers,
      body: Buffer.from(message.body),
    };
    const answer = await sendOnce(request, {
      addresses,
      resolve,
      clock: this.clock,
      timeoutMs: TIMEOUT_MS,
      signal,
    });
    const { status } = answer;
    if (status < 300) return;
    const found = `the receiver answered with status ${status}`;
    if (status < 400) throw new Undeliverable(`${found}: redirections are not followed, name the final URL`);
    if (status < 500 && !PASSING.has(status)) throw new Undeliverable(found);
    const afterMs = retryAfterMs(answer, this.clock.nowMs()) ?? 0;
    throw new Busy(found, Math.min(Math.ceil(afterMs), AFTER_MS_MAX));
  }
}

export function signatureHeaders(
  { id, nowMs, body, secrets }: {
    readonly id: string;
    readonly nowMs: number;
    readonly body: string;
    readonly secrets: readonly string[];
  },
): readonly (readonly [string, string])[] {
  const seconds = String(Math.floor(nowMs / 1000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    return `v1,${createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64")}`;
  });
  return [
    ["webhook-id", id],
    ["webhook-timestamp", seconds],
    ["webhook-signature", signatures.join(" ")],
  ];
}
