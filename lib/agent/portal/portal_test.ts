/**
 * The portal and the app's service over loopback: submissions by people, and attacks by strangers.
 */

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../base/clock.ts";
import { SvcError } from "../../base/error.ts";
import { Logs } from "../../base/log/log.ts";
import { ProvisioningService } from "../../../proto/gen/provisioning_pb.ts";
import { client } from "../../wire/rpc/channel.ts";
import { connectGrpc } from "../../wire/grpc/grpc_channel.ts";
import { openPort } from "../../wire/port/port.ts";
import { ServiceTable } from "../../wire/rpc/service.ts";
import { type DeviceView, type ProvisioningSubmission, ProvisioningSubmissions } from "./submissions.ts";
import { openPortal } from "./portal.ts";
import { provisioningHandlers } from "./provisioning_service.ts";

const clock = new SystemClock();
const logger = new Logs(clock, []).logger("test");
const HOSTILE = `"><script>alert(1)</script>\x1b[2J\u202e`;
const CREDENTIALS = JSON.stringify({
  cloud: { id: "part", app_address: "https://cloud:8090", api_key: { id: "key", key: "s3cr3t" } },
});

const DEVICE: DeviceView = {
  manufacturer: "Acme & Sons",
  model: "<rover>",
  fragmentId: "",
  agentVersion: "1.0.0",
  configured: false,
  online: false,
  networks: [
    { ssid: "shop", security: "WPA2", signal: 80.4, connected: false, lastError: "" },
    { ssid: HOSTILE, security: "", signal: 20, connected: false, lastError: "bad password" },
  ],
};

interface Open {
  readonly url: string;
  readonly submissions: ProvisioningSubmissions;
  readonly taken: ProvisioningSubmission[];
}

async function withPortal(test: (open: Open) => Promise<void>, device = DEVICE): Promise<void> {
  const taken: ProvisioningSubmission[] = [];
  const submissions = new ProvisioningSubmissions(
    clock,
    () => device,
    (submitted) => void taken.push(submitted),
  );
  const port = await openPortal({ submissions, clock, logger, bind: { host: "127.0.0.1", port: 0 } });
  try {
    await test({ url: `http://127.0.0.1:${port.port}`, submissions, taken });
  } finally {
    await port.close(0);
  }
}

async function tokenOf(url: string): Promise<string> {
  return /name="token" value="([\w-]+)"/.exec(await (await fetch(url)).text())![1];
}

/** Sends the form as a browser does; gives the page that it leads to. */
async function save(url: string, fields: Record<string, string>): Promise<string> {
  const answer = await fetch(`${url}/save`, { method: "POST", body: new URLSearchParams(fields) });
  return await answer.text();
}

Deno.test("portal: every path shows the page, and a network's name is only text in it", async () => {
  await withPortal(async ({ url }) => {
    for (
      const path of ["/", "/generate_204", "/hotspot-detect.html", "/connecttest.txt?x=1", "/a/b/c", "/save"]
    ) {
      const answer = await fetch(`${url}${path}`);
      const html = await answer.text();
      assertEquals([answer.status, answer.headers.get("cache-control")], [200, "no-store"]);
      // Another site would read the token of the form, and send the form itself.
      assertEquals(answer.headers.get("access-control-allow-origin"), null);
      assertStringIncludes(html, "Set up Acme &amp; Sons &lt;rover&gt;");
      assertStringIncludes(html, "shop (80.4 %, WPA2)");
      assert(!html.includes("<script") && !html.includes("\x1b") && !html.includes("\u202e"));
    }
  });
});

/** Asks for a path under another name, as the hotspot's name server makes phones do. */
async function askAs(host: string, url: string, init: RequestInit): Promise<Answered> {
  using client = Deno.createHttpClient({ allowHost: true });
  const answer = await fetch(url, { ...init, headers: { host }, redirect: "manual", client });
  return { status: answer.status, fields: answer.headers, body: await answer.text() };
}

interface Answered {
  readonly status: number;
  readonly fields: Headers;
  readonly body: string;
}

/** Where systems look whether they are behind a portal, and what they find if they are not. */
const DETECTIONS: readonly (readonly [system: string, host: string, path: string, free: string])[] = [
  ["Android", "connectivitycheck.gstatic.com", "/generate_204", ""],
  ["Chrome OS", "www.gstatic.com", "/generate_204", ""],
  ["Android, the spare address", "www.google.com", "/gen_204", ""],
  ["iOS and macOS", "captive.apple.com", "/hotspot-detect.html", "Success"],
  ["older iOS", "www.apple.com", "/library/test/success.html", "Success"],
  ["Windows 10 and 11", "www.msftconnecttest.com", "/connecttest.txt", "Microsoft Connect Test"],
  ["Windows, the page to open", "www.msftconnecttest.com", "/redirect", ""],
  ["Windows 7 and 8", "www.msftncsi.com", "/ncsi.txt", "Microsoft NCSI"],
  ["Firefox", "detectportal.firefox.com", "/canonical.html", "https://support.mozilla.org/kb/captive-portal"],
  ["Firefox, the text", "detectportal.firefox.com", "/success.txt", "success"],
  ["GNOME", "nmcheck.gnome.org", "/check_network_status.txt", "NetworkManager is online"],
  ["Ubuntu", "connectivity-check.ubuntu.com", "/", ""],
  ["Debian", "network-test.debian.org", "/nm", "NetworkManager is online"],
  ["KDE", "networkcheck.kde.org", "/", "OK"],
  [
    "Kindle",
    "spectrum.s3.amazonaws.com",
    "/kindle-wifi/wifistub.html",
    "81ce4465-7167-4dcb-835b-dcc9e44c112a",
  ],
];

for (const [system, host, path, free] of DETECTIONS) {
  Deno.test(`portal: ${system} detects the portal and is led to the page`, async () => {
    await withPortal(async ({ url }) => {
      // Some follow to the page and look there. The token is random, and now and then holds the two letters of KDE.
      const page = (await (await fetch(url)).text()).replace(/value="[\w-]+"/, "");
      assert(free === "" || !page.includes(free), page);
      for (const method of ["GET", "HEAD"]) {
        const { status, fields, body } = await askAs(host, `${url}${path}`, { method });
        // 204, or the text of a free way, would hide the portal.
        assertEquals([status, fields.get("location")], [302, `${url}/`]);
        assert(free === "" || !body.includes(free), body);
        // A system that keeps this answer would open the page in other networks.
        assertEquals(fields.get("cache-control"), "no-store");
      }
    });
  });
}

Deno.test("portal: only the device's own address shows the form and takes it", async () => {
  await withPortal(async ({ url, taken }) => {
    const token = await tokenOf(url);
    const body = () =>
      new URLSearchParams({ token, ssid: "shop", password: "12345678", viamconfig: CREDENTIALS });
    const { port } = new URL(url);
    // A name that a site may have had, before the phone joined or by a name server of its own.
    for (const host of ["news.example", `news.example:${port}`, "svc.setup", `127.0.0.2:${port}`]) {
      for (const path of ["/", "/look", "/save"]) {
        const { status, fields, body } = await askAs(host, `${url}${path}`, {});
        assertEquals([status, fields.get("location"), body], [302, `${url}/`, `see ${url}/\n`]);
      }
      const sent = await askAs(host, `${url}/save`, { method: "POST", body: body() });
      assertEquals([sent.status, sent.body], [403, `this page is at ${url}/\n`]);
    }
    for (const origin of ["http://news.example", `http://news.example:${port}`, "null"]) {
      const sent = await fetch(`${url}/save`, { method: "POST", headers: { origin }, body: body() });
      assertEquals([sent.status, await sent.text()], [403, "another site has sent this form\n"]);
    }
    assertEquals(taken, []);
    const own = await fetch(`${url}/save`, { method: "POST", headers: { origin: url }, body: body() });
    assertStringIncludes(await own.text(), "The device now joins shop.");
    assertEquals(taken.length, 1);
  });
});

Deno.test("portal: a reload by a person counts as activity, and a phone's internet probe does not", async () => {
  await withPortal(async ({ url, submissions }) => {
    for (const path of ["/", "/generate_204", "/save"]) await (await fetch(`${url}${path}`)).body?.cancel();
    assertEquals(submissions.userMs, undefined);
    const [, link] = /<a href="([^"]+)">Look for networks again/.exec(await (await fetch(url)).text()) ?? [];
    assertStringIncludes(await (await fetch(`${url}${link}`)).text(), "Look for networks again");
    assert(submissions.userMs !== undefined);
  });
});

Deno.test("portal: a complete form is submitted once, and its secrets are not shown again", async () => {
  await withPortal(async ({ url, submissions, taken }) => {
    assertEquals(submissions.userMs, undefined);
    const token = await tokenOf(url);
    const html = await save(url, { token, ssid: "shop", password: "12345678", viamconfig: CREDENTIALS });
    assertStringIncludes(html, "The device now joins shop.");
    assert(!html.includes("12345678") && !html.includes("s3cr3t"));
    assertEquals(taken.length, 1);
    assertEquals([taken[0].network?.ssid, taken[0].network?.psk.reveal()], ["shop", "12345678"]);
    assertEquals(taken[0].credentials?.reveal(), CREDENTIALS);
    assert(submissions.userMs !== undefined);
    // The page is the form again, without anything that was typed.
    assert(!(await (await fetch(url)).text()).includes("12345678"));
  });
});

Deno.test("portal: an invalid form shows its error once, and nothing is submitted", async () => {
  await withPortal(async ({ url, taken }) => {
    const token = await tokenOf(url);
    const good = { token, ssid: "shop", password: "12345678", viamconfig: CREDENTIALS };
    const cases: [Record<string, string>, string][] = [
      [{ ...good, ssid: "" }, "Choose a network"],
      [{ ...good, other: "x".repeat(33) }, "the network&#39;s name has 33 bytes"],
      [{ ...good, other: "ü".repeat(17) }, "34 bytes"],
      [{ ...good, password: "short" }, "8 to 63 characters"],
      [{ ...good, viamconfig: "{" }, "machine&#39;s credentials"],
      [{ ...good, viamconfig: '{"cloud":{"id":"x"}}' }, "app_address"],
      [{ ...good, token: "other" }, "The form was too old"],
    ];
    for (const [fields, output] of cases) {
      const html = await save(url, fields);
      assertStringIncludes(html.replace("The network", "the network"), output);
      assert(!html.includes("12345678") && !html.includes("s3cr3t"), output);
      assert(!(await (await fetch(url)).text()).includes('role="alert"'));
    }
    assertEquals(taken, []);
  });
});

Deno.test("portal: limits the size of a body and the number of forms per minute", async () => {
  await withPortal(async ({ url, taken }) => {
    const big = await fetch(`${url}/save`, { method: "POST", body: "x".repeat(65 * 1024) });
    assertEquals([big.status, await big.text()], [413, "a form has at most 65536 bytes\n"]);
    const statuses = new Set<number>();
    for (let form = 0; form < 40; form++) {
      const answer = await fetch(`${url}/save`, { method: "POST", body: "token=a", redirect: "manual" });
      await answer.body?.cancel();
      statuses.add(answer.status);
    }
    assertEquals([...statuses], [303, 429]);
    const put = await fetch(url, { method: "PUT", body: "x" });
    assertEquals([put.status, taken.length], [405, 0]);
    await put.body?.cancel();
  });
});

Deno.test("portal: a configured device does not ask for credentials", async () => {
  await withPortal(async ({ url, taken }) => {
    const html = await (await fetch(url)).text();
    assert(!html.includes("viamconfig") && html.includes("ssid"));
    await save(url, { token: await tokenOf(url), other: "hidden one", password: "" });
    assertEquals([taken[0].network?.ssid, taken[0].credentials], ["hidden one", undefined]);
  }, { ...DEVICE, configured: true });
});

Deno.test("provisioning service: the published calls store and submit input", async () => {
  const taken: ProvisioningSubmission[] = [];
  const submissions = new ProvisioningSubmissions(
    clock,
    () => ({ ...DEVICE, lastTried: DEVICE.networks[1] }),
    (one) => void taken.push(one),
  );
  submissions.report("it did not work");
  const table = new ServiceTable(clock);
  table.add(provisioningHandlers(submissions));
  const port = await openPort({ table, clock, bind: { host: "127.0.0.1", port: 0 } });
  const channel = connectGrpc(`127.0.0.1:${port.port}`, { clock });
  const app = client(ProvisioningService, channel);
  try {
    assertEquals(submissions.lookMs, undefined);
    const status = await app.getSmartMachineStatus({});
    assert(submissions.lookMs !== undefined);
    assertEquals([status.hasSmartMachineCredentials, status.isOnline, status.errors], [false, false, [
      "it did not work",
    ]]);
    assertEquals(status.provisioningInfo?.manufacturer, "Acme & Sons");
    const { networks } = await app.getNetworkList({});
    assertEquals(networks.map(({ signal, type }) => [signal, type]), [[80, "wifi"], [20, "wifi"]]);
    await assertRejects(() => app.exitProvisioning({}), SvcError, "credentials are missing");
    const refused = await assertRejects(
      () => app.setNetworkCredentials({ type: "wired", ssid: "x" }),
      SvcError,
      'found a network of type "wired", wanted "wifi"',
    );
    assertEquals(refused.code, "invalid_argument");
    await app.setNetworkCredentials({ type: "wifi", ssid: "shop", psk: "12345678" });
    await app.setSmartMachineCredentials({
      cloud: { id: "part", secret: "hidden", appAddress: "https://cloud:8090" },
    });
    await app.exitProvisioning({});
    assertEquals(taken[0].network?.ssid, "shop");
    assertEquals(JSON.parse(taken[0].credentials!.reveal()).cloud.secret, "hidden");
  } finally {
    channel.close();
    await port.close(0);
  }
});

Deno.test("portal: shows which networks need no password, and which of them are encrypted", async () => {
  const seen = [["plain", ""], ["airport", "OWE"], ["cafe", "OWE-TM"], ["home", "WPA2 WPA3"]] as const;
  const networks = seen.map(([ssid, security]) => ({
    ...{ ssid, security, signal: 50, connected: false, lastError: "" },
  }));
  await withPortal(async ({ url }) => {
    const page = await (await fetch(url)).text();
    const shown = [...page.matchAll(/<option value="\w+">(.*)<\/option>/g)].map(([, text]) => text);
    assertEquals(shown, [
      "plain (50 %, open)",
      "airport (50 %, open, encrypted (OWE))",
      "cafe (50 %, open)",
      "home (50 %, WPA2 WPA3)",
    ]);
  }, { ...DEVICE, networks });
});
