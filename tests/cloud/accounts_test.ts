/** Accounts of people: invitations, passwords, sessions, and what other sites and other tenants cannot do with them. */

import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { AppService } from "../../proto/gen/app_pb.ts";
import { Audit } from "../../lib/cloud/access/audit.ts";
import { defaultLimits } from "../../lib/cloud/access/limits.ts";
import { Accounts } from "../../lib/cloud/accounts/accounts.ts";
import { Invitations } from "../../lib/cloud/accounts/invitations.ts";
import type { Mail } from "../../lib/cloud/notifications/mailer.ts";
import { PublicAddresses } from "../../lib/wire/outward/public_addresses.ts";
import { client, type ServiceClient } from "../../lib/wire/rpc/channel.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { Metadata } from "../../lib/wire/rpc/metadata.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { until } from "../support/until.ts";
import { storeTest } from "./stores.ts";
import { newKey, newWorld, type ServedCloud, withCloud } from "./world.ts";
import { awaitOutcome } from "../support/outcome.ts";

const PASSWORD = "correct horse battery";

interface Answer {
  readonly status: number;
  readonly value: Record<string, unknown>;
  readonly cookie: string | undefined;
}

/** What a browser that is signed in sends. */
class Person {
  cookie: string | undefined;

  constructor(private readonly url: string) {}

  async ask(page: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<Answer> {
    const answer = await fetch(`${this.url}/account/${page}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...this.cookie ? { cookie: this.cookie } : {},
        ...headers,
      },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
    const cookie = answer.headers.get("set-cookie") ?? undefined;
    if (cookie) this.cookie = cookie.split(";", 1)[0];
    return { status: answer.status, value: await answer.json(), cookie };
  }

  async signIn(email: string, password = PASSWORD): Promise<Answer> {
    return await this.ask("sign-in", { email, password });
  }

  async token(): Promise<string> {
    const { status, value } = await this.ask("token");
    assertEquals(status, 200, JSON.stringify(value));
    return value.token as string;
  }
}

/** Calls with a token, on connections that end with the test. */
async function withTokens(
  url: string,
  run: (app: (token: string) => ServiceClient<typeof AppService>) => Promise<void>,
): Promise<void> {
  const channels: { close(): void }[] = [];
  try {
    await run((token) => {
      const header = Metadata.from([["authorization", `Bearer ${token}`]]);
      const channel = connectGrpc(new URL(url).host, { clock: new SystemClock(), header });
      channels.push(channel);
      return client(AppService, channel);
    });
  } finally {
    for (const one of channels) one.close();
  }
}

/** The link that the owner of an organization passes on. */
async function invite(
  { url, app, token }: ServedCloud,
  owner: Parameters<ServedCloud["token"]>[0],
  organizationId: string,
  email: string,
  authorizations: NonNullable<
    Parameters<ServiceClient<typeof AppService>["createOrganizationInvite"]>[0]["authorizations"]
  > = [],
): Promise<string> {
  await (await app(owner)).createOrganizationInvite({ organizationId, email, authorizations });
  const headers = { authorization: `Bearer ${await token(owner)}` };
  const { status, value } = await new Person(url).ask("link", { organizationId, email }, headers);
  assertEquals(status, 200, JSON.stringify(value));
  return (value.link as string).split("#/invitation/")[1];
}

storeTest(
  "a person is invited, signs in, does what the roles allow, and is gone at once",
  (database) =>
    withCloud(database, async (served) => {
      const { store, url, app } = served;
      const world = await newWorld(store);
      const owner = await app(world.owner);
      const { organization: organizationId } = world;
      const link = await invite(served, world.owner, organizationId, "Ann@Example.com", [{
        authorizationType: "role",
        authorizationId: "location_operator",
        resourceType: "location",
        resourceId: world.location,
      }]);
      const { invites } = await owner.listOrganizationMembers({ organizationId });
      assertEquals(invites.map(({ email, authorizations }) => [email, authorizations[0].authorizationId]), [
        ["ann@example.com", "location_operator"],
      ]);
      // Operators see the members, and not who is invited.
      const seen = await (await app(world.operator)).listOrganizationMembers({ organizationId });
      assertEquals(seen.invites, []);

      const ann = new Person(url);
      const about = await ann.ask("invitation", { link });
      assertEquals([about.value.email, about.value.hasAccount], ["ann@example.com", false]);
      for (const password of ["short", "aaaaaaaaaaaa", "ann@example.com", "x".repeat(300)]) {
        assertEquals((await ann.ask("accept", { link, password })).status, 400, password);
      }
      const accepted = await ann.ask("accept", { link, password: PASSWORD, name: "Ann" });
      assertEquals(accepted.status, 200);
      assertMatch(accepted.cookie!, /^svc-session=\S+; Path=\/account; HttpOnly; SameSite=Strict$/);
      // A link is good for one person, once.
      assertEquals((await new Person(url).ask("accept", { link, password: PASSWORD })).status, 404);

      await withTokens(url, async (app) => {
        const calls = app(await ann.token());
        const { locationSummaries } = await calls.listMachineSummaries({});
        assertEquals(locationSummaries[0].machineSummaries.map(({ machineId }) => machineId), [
          world.machine,
        ]);
        assertEquals(
          await awaitOutcome(calls.newRobot({ location: world.location, name: "n" })),
          "permission_denied",
        );
        assertEquals(
          await awaitOutcome(calls.listOrganizationMembers({ organizationId })),
          "permission_denied",
        );
        const { members } = await owner.listOrganizationMembers({ organizationId });
        assertEquals(members.map(({ emails }) => emails), [["ann@example.com"]]);
        const [{ userId }] = members;
        assertEquals((await owner.getUserIDByEmail({ email: "ANN@example.com" })).userId, userId);
        // Her account is no API key that somebody could rotate, rename or copy.
        const { apiKeys } = await owner.listKeys({ orgId: organizationId });
        assertEquals(apiKeys.some(({ apiKey }) => apiKey!.id === userId), false);
        const changes = [
          () => owner.rotateKey({ id: userId }),
          () => owner.renameKey({ id: userId, name: "n" }),
          () => owner.deleteKey({ id: userId }),
          () => owner.createKeyFromExistingKeyAuthorizations({ id: userId }),
        ];
        for (const change of changes) assertEquals(await awaitOutcome(change()), "permission_denied");
        const role = {
          authorizationType: "role",
          authorizationId: "location_owner",
          resourceType: "location",
          resourceId: world.location,
          identityId: userId,
          identityType: "user",
          organizationId,
        };
        await owner.addRole({ authorization: role });
        await calls.newRobot({ location: world.location, name: "ann's" });
        const audit = await new Audit(store, new SystemClock()).newest(10, {
          who: userId,
          action: "NewRobot",
        });
        assertEquals(audit.map(({ outcome }) => outcome), ["done", "refused"]);

        // Another browser; ending its session ends its tokens at once.
        const elsewhere = new Person(url);
        assertEquals((await elsewhere.signIn("ann@example.com")).status, 200);
        const other = app(await elsewhere.token());
        await other.listOrganizations({});
        const { sessions } = (await ann.ask("sessions")).value as {
          sessions: { id: string; isThis: boolean }[];
        };
        assertEquals(sessions.map(({ isThis }) => isThis).sort(), [false, true]);
        await ann.ask("end-session", { id: sessions.find(({ isThis }) => !isThis)!.id });
        assertEquals(await awaitOutcome(other.listOrganizations({})), "unauthenticated");
        assertEquals((await elsewhere.ask("token")).status, 401);
        await calls.listOrganizations({});

        // A new password ends everything that the old one opened.
        const wrong = await ann.ask("password", { current: "not this one", password: `${PASSWORD}!` });
        assertEquals(wrong.status, 401);
        assertEquals(
          (await ann.ask("password", { current: PASSWORD, password: `${PASSWORD}!` })).status,
          200,
        );
        assertEquals(await awaitOutcome(calls.listOrganizations({})), "unauthenticated");
        const fresh = app(await ann.token());
        await fresh.listOrganizations({});
        assertEquals((await new Person(url).signIn("ann@example.com")).status, 401);

        await owner.deleteOrganizationMember({ organizationId, userId });
        const { locationSummaries: none } = await fresh.listMachineSummaries({});
        assertEquals(none, []);
        assertEquals(await awaitOutcome(owner.getUserIDByEmail({ email: "ann@example.com" })), "not_found");
        const cleared = await ann.ask("sign-out");
        assertStringIncludes(cleared.cookie!, "svc-session=; ");
        assertEquals(await awaitOutcome(fresh.listOrganizations({})), "unauthenticated");
      });
    }),
);

storeTest(
  "a tab that shows one person changes nothing of the person who has signed in in the browser since",
  (database) =>
    withCloud(database, async (served) => {
      const world = await newWorld(served.store);
      const people: string[] = [];
      const browser = new Person(served.url);
      for (const email of ["ann@example.com", "bob@example.com"]) {
        const link = await invite(served, world.owner, world.organization, email);
        const { value } = await browser.ask("accept", { link, password: PASSWORD });
        people.push((value.account as { id: string }).id);
      }
      const [ann, bob] = people;
      for (const page of ["token", "sessions", "end-session", "password", "passkeys", "sign-out"]) {
        const { status, cookie } = await browser.ask(page, { accountId: ann, current: PASSWORD });
        assertEquals(cookie, undefined, page);
        assertEquals(status, page === "sign-out" || page === "passkeys" ? 200 : 401, page);
      }
      await browser.token();
      assertEquals((await browser.ask("sessions", { accountId: bob })).status, 200);
      await browser.ask("sign-out", { accountId: bob });
      assertEquals((await browser.ask("token")).status, 401);
    }),
);

storeTest(
  "other sites, forms and planted cookies sign nobody in, and nothing leads elsewhere",
  (database) =>
    withCloud(database, async (served) => {
      const { store, url } = served;
      const world = await newWorld(store);
      const ann = new Person(url);
      const link = await invite(served, world.owner, world.organization, "ann@example.com");
      await ann.ask("accept", { link, password: PASSWORD });
      const good = { email: "ann@example.com", password: PASSWORD };
      const foreign: Record<string, string>[] = [
        { origin: "https://evil.example" },
        { origin: "null" },
        { "sec-fetch-site": "cross-site" },
        { "sec-fetch-site": "same-site" },
        { "sec-fetch-site": "none" },
        { "sec-fetch-site": "cross-site", origin: url },
      ];
      for (const headers of foreign) {
        const { status, cookie } = await ann.ask("sign-in", good, headers);
        assertEquals([status, cookie], [403, undefined], JSON.stringify(headers));
        assertEquals((await ann.ask("token", {}, headers)).status, 403);
      }
      assertEquals((await ann.ask("token", {}, { origin: url })).status, 200);
      // What a form can send.
      for (
        const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
      ) {
        assertEquals((await ann.ask("token", "{}", { "content-type": type })).status, 400, type);
      }
      const preflight = await fetch(`${url}/account/token`, {
        method: "OPTIONS",
        headers: { origin: "https://evil.example", "access-control-request-method": "POST" },
      });
      await preflight.body?.cancel();
      assertEquals(preflight.headers.get("access-control-allow-credentials"), null);
      const get = await fetch(`${url}/account/token`, { headers: { cookie: ann.cookie! } });
      await get.body?.cancel();
      assertEquals([get.status, get.headers.get("access-control-allow-origin")], [405, null]);

      // The cookie opens no call, and a session that somebody planted does not become the person's.
      const asCall = await fetch(`${url}/viam.app.v1.AppService/ListOrganizations`, {
        method: "POST",
        headers: { "content-type": "application/grpc-web+proto", cookie: ann.cookie! },
        body: new Uint8Array(5),
      });
      await asCall.body?.cancel();
      assertNotEquals(asCall.headers.get("grpc-status"), "0");
      const mallory = new Person(url);
      const other = await invite(served, world.owner, world.organization, "mallory@example.com");
      await mallory.ask("accept", { link: other, password: PASSWORD });
      const victim = new Person(url);
      victim.cookie = mallory.cookie;
      const before = victim.cookie;
      await victim.signIn("ann@example.com");
      assertNotEquals(victim.cookie, before);
      assertEquals((await mallory.ask("token")).status, 401);
      assertEquals(((await victim.ask("token")).value.account as { email: string }).email, "ann@example.com");

      // Hostile requests.
      for (
        const body of [
          "",
          "[]",
          "null",
          "{",
          '"x"',
          JSON.stringify({ email: 7 }),
          `{"email":"${"x".repeat(20_000)}"}`,
        ]
      ) {
        assertEquals((await new Person(url).ask("sign-in", body)).status, 400, body.slice(0, 20));
      }
      for (
        const cookie of [
          "svc-session=",
          "svc-session=x.y",
          "svc-session=%00",
          `svc-session=${"x".repeat(4000)}`,
        ]
      ) {
        const person = new Person(url);
        person.cookie = cookie;
        assertEquals((await person.ask("token")).status, 401);
      }
      for (const email of ["", "ann", "ann@", "\0@\0", "a@b c", `${"x".repeat(900)}@example.com`]) {
        assertEquals((await new Person(url).signIn(email)).status, 401, email);
      }
      const redirected = await fetch(
        `${url}/account/sign-in?next=https://evil.example&return_to=//evil.example`,
        {
          method: "POST",
          redirect: "manual",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(good),
        },
      );
      await redirected.body?.cancel();
      assertEquals([redirected.status, redirected.headers.get("location")], [200, null]);
    }),
);

storeTest(
  "wrong passwords are limited for an account and an address, and lock no person out",
  (database) =>
    withCloud(database, async (served) => {
      const { store, url } = served;
      const world = await newWorld(store);
      const ann = new Person(url);
      const link = await invite(served, world.owner, world.organization, "ann@example.com");
      await ann.ask("accept", { link, password: PASSWORD });
      const known = await new Person(url).signIn("ann@example.com", "a wrong password");
      const unknown = await new Person(url).signIn("nobody@example.com", "a wrong password");
      assertEquals([known.status, known.value.error], [unknown.status, unknown.value.error]);
      const statuses: number[] = [];
      for (let at = 0; at < 4; at++) {
        statuses.push((await new Person(url).signIn("ann@example.com", `wrong password ${at}`)).status);
      }
      assertEquals(statuses, [401, 401, 429, 429]);
      const refused = await new Person(url).signIn("ann@example.com");
      assertMatch(String(refused.value.error), /too many wrong/);
      const audit = await new Audit(store, new SystemClock()).newest(5, { action: "SignIn" });
      assertEquals(audit.filter(({ outcome }) => outcome === "refused").length, 1);
      // Her open session goes on.
      assertEquals((await ann.ask("token")).status, 200);
    }, { limits: { ...defaultLimits(), wrongKeysPerKey: 3 }, clock: new FakeClock() }),
);

storeTest(
  "an invitation gives nothing of another organization, ends with its time, and is replaced",
  (database) => {
    const clock = new FakeClock();
    return withCloud(database, async (served) => {
      const { store, url, app } = served;
      const [mine, theirs] = [await newWorld(store), await newWorld(store)];
      const owner = await app(mine.owner);
      const { organization: organizationId } = mine;
      const foreign = {
        authorizationType: "role",
        authorizationId: "organization_owner",
        resourceType: "organization",
        resourceId: theirs.organization,
      };
      const on = { organizationId, email: "eve@example.com" };
      const asked = owner.createOrganizationInvite({ ...on, authorizations: [foreign] });
      assertEquals(await awaitOutcome(asked), "invalid_argument");
      const operator = await app(mine.operator);
      assertEquals(await awaitOutcome(operator.createOrganizationInvite(on)), "permission_denied");
      const other = await app(theirs.owner);
      assertEquals(
        await awaitOutcome(other.listOrganizationMembers({ organizationId })),
        "permission_denied",
      );
      const former = await invite(served, mine.owner, organizationId, on.email);
      const update = { ...on, addAuthorizations: [foreign] };
      assertEquals(
        await awaitOutcome(owner.updateOrganizationInviteAuthorizations(update)),
        "invalid_argument",
      );
      const link = await invite(served, mine.owner, organizationId, on.email);
      assertEquals((await new Person(url).ask("invitation", { link: former })).status, 404);
      // Only an owner gets links.
      for (const key of [mine.operator, theirs.owner]) {
        const headers = { authorization: `Bearer ${await served.token(key)}` };
        assertEquals((await new Person(url).ask("link", on, headers)).status, 403);
      }
      clock.setOn(8 * 24 * 3600 * 1000);
      assertEquals((await new Person(url).ask("invitation", { link })).status, 404);

      // A person with an account takes another invitation with the password that there is.
      const first = await invite(served, mine.owner, organizationId, on.email);
      await new Person(url).ask("accept", { link: first, password: PASSWORD });
      const second = await invite(served, theirs.owner, theirs.organization, on.email);
      const eve = new Person(url);
      assertEquals((await eve.ask("accept", { link: second, password: "another password" })).status, 401);
      assertEquals((await eve.ask("accept", { link: second, password: PASSWORD })).status, 200);
      await withTokens(url, async (app) => {
        const calls = app(await eve.token());
        const { organizations } = await calls.listOrganizations({});
        assertEquals(organizations.length, 2);
        const { id: userId } = (await new Accounts(store).byEmail(on.email))!;
        // Each organization sees that she is one of its own, and nothing of the other.
        assertEquals((await owner.listOrganizationsByUser({ userId })).orgs.map(({ orgId }) => orgId), [
          organizationId,
        ]);
        const stranger = await app2(served, await newWorld(store));
        assertEquals(await awaitOutcome(stranger.getUserIDByEmail({ email: on.email })), "not_found");
        assertEquals((await stranger.listOrganizationsByUser({ userId })).orgs, []);
        assertEquals(
          await awaitOutcome(other.deleteOrganizationMember({ organizationId, userId })),
          "permission_denied",
        );
        await other.deleteOrganizationMember({ organizationId: theirs.organization, userId });
        assertEquals((await calls.listOrganizations({})).organizations.map(({ id }) => id), [organizationId]);
      });

      // The link for a new password ends the sessions that there are.
      const { opener } = await store.transaction((sql) =>
        new Invitations(sql).reset(on.email, clock.nowMs())
      );
      const reset = new Person(url);
      assertEquals((await reset.ask("accept", { link: opener, password: `${PASSWORD} 2` })).status, 200);
      assertEquals((await eve.ask("token")).status, 401);
      assertEquals((await reset.ask("token")).status, 200);
    }, { clock });
  },
);

const app2 = async ({ app }: ServedCloud, { owner }: { readonly owner: Parameters<ServedCloud["app"]>[0] }) =>
  await app(owner);

storeTest(
  "the only owner of an organization stays in it",
  (database) =>
    withCloud(database, async (served) => {
      const { store, url, app } = served;
      const world = await newWorld(store);
      const { organization: organizationId } = world;
      const ann = new Person(url);
      const link = await invite(served, world.owner, organizationId, "ann@example.com");
      await ann.ask("accept", { link, password: PASSWORD });
      const owner = await app(world.owner);
      const { userId } = await owner.getUserIDByEmail({ email: "ann@example.com" });
      await withTokens(url, async (app) => {
        const calls = app(await ann.token());
        await calls.deleteKey({ id: world.owner.id });
        assertEquals(
          await awaitOutcome(calls.deleteOrganizationMember({ organizationId, userId })),
          "failed_precondition",
        );
        // Nor does the person become something less.
        const as = (role: string) => ({
          ...{ authorizationType: "role", authorizationId: `organization_${role}`, organizationId },
          ...{
            resourceType: "organization",
            resourceId: organizationId,
            identityId: userId,
            identityType: "user",
          },
        });
        const change = { oldAuthorization: as("owner"), newAuthorization: as("operator") };
        const lessened = await Promise.all([
          awaitOutcome(calls.removeRole({ authorization: as("owner") })),
          awaitOutcome(calls.changeRole(change)),
          awaitOutcome(calls.addRole({ authorization: as("viewer") })),
        ]);
        assertEquals(lessened, Array(3).fill("failed_precondition"));
        await calls.addRole({ authorization: as("owner") });
        assert((await newKey(store, "owner", "organization", organizationId)).id);
        await calls.deleteOrganizationMember({ organizationId, userId });
      });
    }),
);

storeTest("invitations are mailed within the limit of the organization's mails of a day", (database) => {
  const mails: string[] = [];
  const mail = ({ to }: Mail) => Promise.resolve(void mails.push(to));
  const addresses = new PublicAddresses();
  const limits = { ...defaultLimits(), mailsPerOrganizationDay: 2 };
  return withCloud(database, async (served) => {
    const { store, app } = served;
    const [world, other] = [await newWorld(store), await newWorld(store)];
    const owner = await app(world.owner);
    const invited = (name: string, sendEmailInvite?: boolean) =>
      awaitOutcome(owner.createOrganizationInvite({
        organizationId: world.organization,
        email: `${name}@example.com`,
        sendEmailInvite,
      }));
    const again = (name: string) =>
      awaitOutcome(
        owner.resendOrganizationInvite({ organizationId: world.organization, email: `${name}@example.com` }),
      );

    assertEquals([await invited("ann"), await again("ann")], ["ok", "ok"]);
    assertEquals([await invited("bob"), await again("ann")], ["resource_exhausted", "resource_exhausted"]);
    // Without a mail, the inviter passes on the link.
    assertEquals(await invited("bob", false), "ok");
    const theirs = await app(other.owner);
    await theirs.createOrganizationInvite({ organizationId: other.organization, email: "cat@example.com" });
    assertEquals(mails, ["ann@example.com", "ann@example.com", "cat@example.com"]);
  }, { limits, triggers: { mail, addresses } });
});

storeTest("an invitation has no more roles than an account may have, nor does a change of it", (database) => {
  const limits = { ...defaultLimits(), rolesPerKey: 2 };
  return withCloud(database, async (served) => {
    const { store, app } = served;
    const { organization: organizationId, location, machine, owner: key } = await newWorld(store);
    const owner = await app(key);
    const role = (kind: "organization" | "location" | "robot", resourceId: string) => ({
      authorizationType: "role",
      authorizationId: `${kind}_viewer`,
      resourceType: kind,
      resourceId,
      organizationId,
    });
    const [all, hall, rover] = [
      role("organization", organizationId),
      role("location", location),
      role("robot", machine),
    ];
    const on = { organizationId, email: "ann@example.com" };
    const change = (addAuthorizations: typeof all[], removeAuthorizations: typeof all[] = []) =>
      awaitOutcome(
        owner.updateOrganizationInviteAuthorizations({ ...on, addAuthorizations, removeAuthorizations }),
      );

    const three = [all, hall, rover];
    assertEquals(
      await awaitOutcome(owner.createOrganizationInvite({ ...on, authorizations: three })),
      "resource_exhausted",
    );
    await owner.createOrganizationInvite({ ...on, authorizations: [all, hall] });
    assertEquals([await change([rover]), await change([], three), await change(three)], [
      "resource_exhausted",
      "resource_exhausted",
      "resource_exhausted",
    ]);
    assertEquals(await change([rover], [hall]), "ok");
    const { invites } = await owner.listOrganizationMembers({ organizationId });
    assertEquals(invites[0].authorizations.map(({ resourceType }) => resourceType), [
      "robot",
      "organization",
    ]);
  }, { limits });
});

storeTest(
  "a session tells when it was last used, ends with its time, and is forgotten like a link for a new password",
  (database) => {
    const clock = new FakeClock();
    return withCloud(database, async (served) => {
      const { store, url } = served;
      const world = await newWorld(store);
      const ann = new Person(url);
      const link = await invite(served, world.owner, world.organization, "ann@example.com");
      await ann.ask("accept", { link, password: PASSWORD });
      await store.transaction((sql) => new Invitations(sql).reset("ann@example.com", clock.nowMs()));
      const ask = async () => {
        const { status, value } = await ann.ask("sessions");
        assertEquals(status, 200, JSON.stringify(value));
        return (value.sessions as { readonly createdMs: number; readonly seenMs: number }[])[0];
      };
      const { createdMs, seenMs } = await ask();
      assertEquals(seenMs, createdMs);
      await clock.advance(61_000);
      assertEquals((await ask()).seenMs, createdMs + 61_000);

      await clock.advance(12 * 3600 * 1000);
      assertEquals((await ann.ask("sessions")).status, 401);
      const count = async (table: string) =>
        (await store.query<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`))[0].n;
      await until(async () => Number(await count("account_sessions")) === 0);
      assertEquals(Number(await count("invitations")), 1);
      await until(async () => {
        await clock.advance(3600 * 1000);
        return Number(await count("invitations")) === 0;
      });
      assert(clock.nowMs() - createdMs >= 24 * 3600 * 1000);
    }, { clock });
  },
);
