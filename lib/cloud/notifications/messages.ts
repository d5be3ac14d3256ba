/**
 * The content of notifications in the published form: for programs the headers and the body of a request, for people a
 * mail.
 */

import type { JsonObject } from "../../base/schema/schema.ts";
import type { TriggerMessage } from "./deliveries.ts";
import type { EventType, Trigger } from "../triggers/settings.ts";

/** The names and ids of the resources around an event. */
export interface Around {
  readonly organizationId: string;
  readonly organizationName: string;
  readonly locationId: string;
  readonly locationName: string;
  readonly machineId: string;
  readonly machineName: string;
  readonly partId: string;
  readonly partName: string;
}

/** The details of an event, for the body of a request. */
export type EventContent =
  | { readonly kind: "status" }
  | { readonly kind: "data"; readonly facts: JsonObject }
  | { readonly kind: "logs"; readonly entries: readonly JsonObject[] };

/** Limit of the content in a body; larger contents are left out. */
const BODY_LENGTH_MAX = 256 * 1024;
const TEXT_LENGTH_MAX = 20_000;

const TITLES: { readonly [T in EventType]: string } = {
  part_online: "is online",
  part_offline: "is offline",
  part_data_ingested: "has synced data",
  conditional_data_ingested: "has synced data that fulfils a condition",
  conditional_logs_ingested: "has logged",
};

export function messageFor(
  trigger: Pick<Trigger, "name" | "event">,
  around: Around,
  content: EventContent,
  atMs: number,
  isTest = false,
): TriggerMessage {
  const names = [
    ["Organization-Name", around.organizationName],
    ["Location-Name", around.locationName],
    ["Machine-Name", around.machineName],
  ] as const;
  const headers = [
    ["Org-Id", around.organizationId],
    ["Location-Id", around.locationId],
    ["Part-Id", around.partId],
    ["Part-Name", around.partName],
    ["Robot-Id", around.machineId],
    // Elsewhere the body has them.
    ...content.kind === "data" ? [] : names,
    ...isTest ? [["Svc-Trigger-Test", "true"] as const] : [],
  ] as const;
  const body = bodyOf(content, around);
  const title = `${around.machineName} ${TITLES[trigger.event.type]}`;
  return {
    method: content.kind === "status" ? "GET" : "POST",
    headers: content.kind === "status" ? headers : [["Content-Type", "application/json"], ...headers],
    body,
    subject: `${isTest ? "Test: " : ""}${title} (${trigger.name})`,
    text: textFor(trigger, around, body, title, atMs),
  };
}

function bodyOf(content: EventContent, around: Around): string {
  if (content.kind === "status") return "";
  if (content.kind === "logs") return JSON.stringify(content.entries);
  const { data, ...facts } = content.facts;
  const named = {
    org_name: around.organizationName,
    location_name: around.locationName,
    machine_name: around.machineName,
    ...facts,
  };
  const whole = JSON.stringify(data === undefined ? named : { ...named, data });
  return whole.length <= BODY_LENGTH_MAX ? whole : JSON.stringify({ ...named, data_left_out: true });
}

function textFor(
  trigger: Pick<Trigger, "name" | "event">,
  around: Around,
  body: string,
  title: string,
  atMs: number,
): string {
  const shown = body === "" ? "" : JSON.stringify(JSON.parse(body), null, 2);
  const clipped = shown.length > TEXT_LENGTH_MAX ? `${shown.slice(0, TEXT_LENGTH_MAX)}\n…` : shown;
  const lines = [
    `${title}.`,
    "",
    `Time: ${new Date(atMs).toISOString()}`,
    `Machine: ${around.machineName} (${around.machineId})`,
    `Part: ${around.partName} (${around.partId})`,
    `Location: ${around.locationName} (${around.locationId})`,
    `Organization: ${around.organizationName} (${around.organizationId})`,
    `Trigger: ${trigger.name} (${trigger.event.type})`,
    ...clipped === "" ? [] : ["", clipped],
  ];
  return `${lines.join("\n")}\n`;
}
