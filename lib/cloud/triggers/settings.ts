/**
 * The `triggers` of a machine's configuration: which events they wait for, and who is notified.
 *
 * The control plane reads this section, the machine does not. The only place with its published names.
 */

import {
  any,
  bool,
  choice,
  DecodeContext,
  type Infer,
  integer,
  isObject,
  type Json,
  list,
  object,
  type Problem,
  text,
} from "../../base/schema/schema.ts";
import { secret } from "../../base/secret.ts";

export const EVENT_TYPES = [
  "part_online",
  "part_offline",
  "part_data_ingested",
  "conditional_data_ingested",
  "conditional_logs_ingested",
] as const;
export type EventType = typeof EVENT_TYPES[number];

export const DATA_TYPES = ["binary", "tabular", "file", "unspecified"] as const;
export type DataKind = typeof DATA_TYPES[number];

export const OPERATORS = ["lt", "gt", "lte", "gte", "eq", "neq", "regex"] as const;

/** The trigger settings of one configuration. */
const TRIGGERS_MAX = 100;
const NOTIFICATIONS_MAX = 20;
const EVALS_MAX = 20;
const NAME_LENGTH_MAX = 200;
const TARGET_LENGTH_MAX = 2_000;
const REGEX_LENGTH_MAX = 1_000;
const LEVELS = ["error", "warn", "info"] as const;
/** The receivers of a mail: everybody with an account who is an owner of the machine. */
export const ALL_OWNERS = "all_machine_owners";
/** Only a part of RFC 5322: one plain address, which cannot add recipients or header fields. */
const MAIL_ADDRESS = /^[^\s@,;:<>"()[\]\\]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$/;

const evalField = object({
  operator: choice("how the value in the data compares to the given one", OPERATORS).required(),
  value: any('the path in the data and the value to compare with: {"cpu": 50}').required(),
}).with((one, at) => {
  if (!isObject(one.value) || Object.keys(one.value).length !== 1) {
    return at.at("value").wanted('an object with one path: {"cpu": 50}', one.value);
  }
  const { right } = operandsOf(one.value);
  if (one.operator !== "regex") return one;
  if (typeof right !== "string" || right.length > REGEX_LENGTH_MAX) {
    return at.at("value").wanted(`a regular expression of at most ${REGEX_LENGTH_MAX} characters`, right);
  }
  try {
    new RegExp(right, "u");
    return one;
  } catch {
    return at.at("value").wanted("a regular expression", right);
  }
});

const conditionsField = object({
  evals: list(evalField, "all of them have to hold").default([]).with((evals, at) =>
    evals.length <= EVALS_MAX
      ? evals
      : at.error(`found ${evals.length} conditions, wanted at most ${EVALS_MAX}`)
  ),
});

const eventField = object({
  type: choice("what happens", EVENT_TYPES).required(),
  dataIngested: object({ dataTypes: list(choice("", DATA_TYPES)).default([]) }, "for part_data_ingested"),
  dataTypes: list(choice("", DATA_TYPES), "the same, in another place").default([]),
  conditional: object({
    dataCaptureMethod: text("<type>:<name>:<method>, for example sensor:thermometer:Readings").required(),
    conditions: conditionsField.aka("condition"),
  }, "for conditional_data_ingested"),
  logLevels: list(choice("", LEVELS), "for conditional_logs_ingested").default([]),
}).with((event, at) => {
  const { type, dataIngested, dataTypes, conditional, logLevels } = event;
  if (type === "conditional_data_ingested" && !conditional) {
    return at.at("conditional").error("missing required field, wanted a data_capture_method");
  }
  if (type === "conditional_logs_ingested" && logLevels.length === 0) {
    return at.at("log_levels").error(`missing required field, wanted some of ${LEVELS.join(", ")}`);
  }
  const kinds = dataIngested?.dataTypes.length ? dataIngested.dataTypes : dataTypes;
  if (type === "part_data_ingested" && kinds.length === 0) {
    return at.at("data_ingested").at("data_types").error(
      `missing required field, wanted some of ${DATA_TYPES.join(", ")}`,
    );
  }
  return { type, dataTypes: kinds, conditional, logLevels };
});

const receiverField = object({
  type: choice("webhook or email", ["webhook", "email", "push"]).required(),
  value: text("the URL or the e-mail address").required(),
  secondsBetweenNotifications: integer("shortest time between two notifications, for data", {
    min: 0,
    max: 366 * 24 * 3600,
  }).default(0),
  auth: object({
    basic: object({ username: text().required(), password: secret().required() }),
  }, "credentials for a webhook"),
  application: text("for push"),
});

interface Receiver extends Omit<NonNullable<Infer<typeof receiverField>>, "type"> {
  readonly type: "webhook" | "email";
}

const notificationField = receiverField.with((one, at): Receiver | undefined => {
  if (one.type === "push") {
    return void at.warn("this control plane sends no messages to phones, so this notification is left out");
  }
  const receiver: Receiver = { ...one, type: one.type };
  if (one.type === "email") return mailReceiver(receiver, at);
  const url = one.value.length <= TARGET_LENGTH_MAX ? URL.parse(one.value) : null;
  if (!url || !/^https?:$/.test(url.protocol)) {
    return at.at("value").wanted("the URL of a webhook: https://example.com/hook", one.value);
  }
  if (url.username !== "" || url.password !== "") {
    return at.at("value").error("found credentials in the URL (not shown), wanted them in auth.basic");
  }
  return receiver;
});

function mailReceiver(one: Receiver, at: DecodeContext): Receiver | undefined {
  if (one.value === ALL_OWNERS || MAIL_ADDRESS.test(one.value)) return one;
  return at.at("value").wanted(`an e-mail address, or ${ALL_OWNERS}`, one.value);
}

const triggerField = object({
  name: text("its name", {
    pattern: new RegExp(`^[^\\x00-\\x1f\\x7f]{1,${NAME_LENGTH_MAX}}$`),
    wanted: `1 to ${NAME_LENGTH_MAX} characters`,
  }).required(),
  event: eventField.required(),
  notifications: list(notificationField, "who is told").required(),
  notes: text("what it is for"),
  disabled: bool("it does nothing").default(false),
}, "a trigger");

export type Trigger = NonNullable<Infer<typeof triggerField>>;
export type TriggerNotification = Trigger["notifications"][number];
export type TriggerEvals = NonNullable<NonNullable<Trigger["event"]["conditional"]>["conditions"]>["evals"];

/** The usable triggers of a configuration, and every problem in the section. */
export function triggersIn(json: Json | undefined): { triggers: Trigger[]; problems: Problem[] } {
  const at = new DecodeContext().at("triggers");
  if (json === undefined || json === null) return { triggers: [], problems: at.problems };
  if (!Array.isArray(json)) at.wanted("a list of triggers", json);
  const all = Array.isArray(json) ? json : [];
  if (all.length > TRIGGERS_MAX) at.error(`found ${all.length} triggers, wanted at most ${TRIGGERS_MAX}`);

  const triggers: Trigger[] = [];
  const names = new Set<string>();
  for (const [index, one] of all.slice(0, TRIGGERS_MAX).entries()) {
    const own = at.at(index);
    const before = at.problems.length;
    const trigger = triggerField.decode(one, own);
    if (!trigger || at.problems.slice(before).some(({ severity }) => severity === "error")) continue;
    const { name, notifications, disabled } = trigger;
    if (notifications.length > NOTIFICATIONS_MAX) {
      own.at("notifications").error(`found ${notifications.length}, wanted at most ${NOTIFICATIONS_MAX}`);
    } else if (names.has(name)) own.at("name").error(`there is another trigger "${name}"`);
    else if (!disabled) triggers.push(trigger);
    names.add(name);
  }
  return { triggers, problems: at.problems };
}

/** The path of a condition, and the value to compare with: `{"a": {"b": 1}}` is the same as `{"a.b": 1}`. */
export function operandsOf(value: Json): { readonly path: readonly string[]; readonly right: Json } {
  const path: string[] = [];
  let right = value;
  while (isObject(right)) {
    const [only, ...others] = Object.entries(right as { readonly [key: string]: Json });
    if (!only || others.length > 0) break;
    const [key, inner] = only;
    path.push(key);
    right = inner;
  }
  return { path, right };
}
