/**
 * Mails of triggers to all owners of a machine: the accounts with that role on it, on a location around it, or on its
 * organization.
 */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { type Grant, Keys, newKeySecret } from "../../lib/cloud/access/keys.ts";
import { Accounts } from "../../lib/cloud/accounts/accounts.ts";
import { ConfigThreads, ownThread } from "../../lib/cloud/config/config_threads.ts";
import { type ClaimedDelivery, Deliveries } from "../../lib/cloud/notifications/deliveries.ts";
import { TriggerEvents } from "../../lib/cloud/notifications/events.ts";
import { NotificationSender, Undeliverable } from "../../lib/cloud/notifications/sender.ts";
import { keepTriggers, noteEvent, oldestEvents } from "../../lib/cloud/triggers/outbox.ts";
import { PublicAddresses } from "../../lib/wire/outward/public_addresses.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { storeTest } from "./stores.ts";
import { newWorld } from "./world.ts";

/** No readings are in files here. */
const files = undefined as never;
const START_MS = 1_700_000_000_000;

storeTest(
  "a mail to all owners of a machine goes to each account that owns it at that time",
  async (database) => {
    const clock = new FakeClock(START_MS);
    const store = await database.open();
    const { organization, location, machine, part } = await newWorld(store);
    const mail = { type: "email", value: "all_machine_owners", seconds_between_notifications: 600 };
    const data = { type: "part_data_ingested", data_ingested: { data_types: ["binary"] } };
    const triggers = [
      { name: "on", event: { type: "part_online" }, notifications: [mail] },
      { name: "data", event: data, notifications: [mail] },
    ];
    await store.transaction((sql) => keepTriggers(sql, part, triggers, true));
    const configs = new ConfigThreads(ownThread(() => Promise.resolve([])), defaultLimits(), clock);
    const events = new TriggerEvents({ store, files, clock, configs, limits: defaultLimits() });
    const happens = async (trigger: string) => {
      const facts = { kind: "test", trigger } as const;
      const on = { id: part, organizationId: organization };
      await store.transaction((sql) => noteEvent(sql, on, facts, clock.nowMs()));
      for (const event of await oldestEvents(store, 100)) await events.handle(event);
    };
    const list = () => new Deliveries(store).list({ organizationId: organization, limit: 100 });
    const shown = async () =>
      (await list()).map(({ trigger, target, state }) => `${trigger} ${state} ${target}`).sort();

    await happens("on");
    assertEquals(await shown(), ["on dead all_machine_owners"]);
    assertStringIncludes((await list())[0].error, "no account is an owner of rover");

    const { organization: other } = await newWorld(store);
    const people: [string, Grant][] = [
      ["ann", { role: "owner", kind: "organization", resourceId: organization }],
      ["bob", { role: "owner", kind: "location", resourceId: location }],
      ["cat", { role: "owner", kind: "machine", resourceId: machine }],
      ["dan", { role: "operator", kind: "organization", resourceId: organization }],
      ["eve", { role: "owner", kind: "organization", resourceId: other }],
    ];
    const ids = new Map<string, string>();
    for (const [name, grant] of people) {
      const account = { email: `${name}@example.com`, name, secret: await newKeySecret() };
      await store.transaction(async (sql) => {
        const id = await new Accounts(sql).create(account, clock.nowMs());
        await new Keys(sql).grant(id, grant);
        ids.set(name, id);
      });
    }
    await happens("on");
    await happens("data");
    const owners = ["ann", "bob", "cat"];
    const mailed = (trigger: string) => owners.map((name) => `${trigger} pending ${name}@example.com`);
    assertEquals(await shown(), [...mailed("data"), "on dead all_machine_owners", ...mailed("on")]);

    // Who is an owner no more when it is sent gets nothing, and nothing is ever sent to the word itself.
    await store.transaction((sql) => new Accounts(sql).delete(ids.get("bob")!));
    const sent: string[] = [];
    const sender = new NotificationSender(store, clock, {
      addresses: new PublicAddresses([]),
      mail: ({ to }) => Promise.resolve(void sent.push(to)),
    });
    const ofOn = (await list()).filter(({ trigger }) => trigger === "on");
    for (const one of ofOn) {
      const delivery: ClaimedDelivery = {
        ...one,
        message: { method: "GET", headers: [], body: "", subject: "", text: "" },
      };
      const sending = () => sender.send(delivery, new AbortController().signal);
      if (["ann@example.com", "cat@example.com"].includes(one.target)) await sending();
      else await assertRejects(sending, Undeliverable, "no longer notifies");
    }
    assertEquals(sent.sort(), ["ann@example.com", "cat@example.com"]);
    configs.close();
  },
);
