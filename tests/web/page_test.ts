/** The machine's page in a real browser, against a machine that has every published API. */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Browser, Page, Route } from "playwright-core";
import { SESSION_METHODS } from "../../lib/web/machine/link/session_methods.ts";
import { parentOf, parentsInStore } from "../../lib/web/machine/space/stored_frames.ts";
import { ownFinders } from "../../lib/web/machine/views/configuration/finders.ts";
import { serviceName } from "../../lib/web/machine/cards/service_names.ts";
import { APIS } from "../../lib/api/mod.ts";
import type { JsonObject } from "../../lib/base/schema/schema.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { ACCESS_STEPS } from "./access_steps.ts";
import { DASHBOARD_STEPS } from "./dashboard_steps.ts";
import { browserWithPage, launch, openPage, runPageSteps, violations } from "./browser.ts";
import { CONFIGURATION_STEPS } from "./configuration_steps.ts";
import { INPUT_STEPS } from "./input_steps.ts";
import { HOSTILE_STEPS } from "./hostile_steps.ts";
import { everyApi, HOSTILE_TEXT, startPageMachine } from "./page_machine.ts";
import { cardOf, closeCards, DEMO, isMoving, type PageShared, type PageStep } from "./page_steps.ts";
import { SAFETY_STEPS } from "./safety_steps.ts";
import { STALE_STEPS } from "./stale_steps.ts";
import { VIEW_STEPS } from "./view_steps.ts";

const ROOT = new URL("../../", import.meta.url);

Deno.test("every published API has a card", async () => {
  const missing: string[] = [];
  for (const { name } of APIS) {
    const [, kind, type] = name.split(":");
    const file = new URL(`lib/web/machine/cards/${kind}/${type}.svelte`, ROOT);
    if (!await Deno.stat(file).catch(() => undefined)) missing.push(name);
  }
  assertEquals(missing, []);
});

Deno.test("cards know the service of every published API", () => {
  const named = APIS.map(({ name }) => [name, serviceName(name)]);
  assertEquals(named, APIS.map(({ name, desc }) => [name, desc.typeName]));
});

Deno.test("hardware is looked for by this machine's own services, not by those of its remotes", () => {
  const resource = (name: string, type: string, remote = "") => ({ name, type, remote });
  const own = [resource("cams", "discovery"), resource("eye", "camera")];
  assertEquals(ownFinders([...own, resource("far-cams", "discovery", "far")]), ["cams"]);
  assertEquals(ownFinders([resource("far-cams", "discovery", "far")]), []);
  assertEquals(ownFinders([...own, resource("more", "discovery")]), ["cams", "more"]);
});

Deno.test("what a world state store holds is drawn from its parents, however many are in the store", () => {
  const at = (referenceFrame: string, parent: string) => ({
    referenceFrame,
    poseInObserverFrame: { referenceFrame: parent },
  });
  const all = [
    ...[at("box", "tray"), at("tray", "cart"), at("cart", "arm"), at("free", ""), at("lost", "nowhere")],
    ...[at("ring", "ring"), at("one", "other"), at("other", "one"), at("arm", "cart")],
  ];
  const stored = new Map(all.map((one) => [one.referenceFrame, one]));
  const parents = (name: string) =>
    parentsInStore(stored.get(name)!, stored, (frame) => frame === "arm")?.map((one) => one.referenceFrame);
  assertEquals(["box", "tray", "cart", "free"].map(parents), [["tray", "cart"], ["cart"], [], []]);
  assertEquals(["lost", "ring", "one"].map(parents), [undefined, undefined, undefined]);
  assertEquals(["free", "box"].map((name) => parentOf(stored.get(name)!)), ["world", "tray"]);
});

Deno.test("the page moves things in sessions as the machine expects it", () => {
  const named = APIS.flatMap(({ desc: { typeName }, monitored = "none" }) =>
    monitored === "none" || monitored.length === 0 ? [] : [[typeName, [...monitored].sort()]]
  );
  const known = Object.entries(SESSION_METHODS).map(([service, methods]) => [service, [...methods].sort()]);
  assertEquals(known.sort(), named.sort());
});

const MACHINE_STEPS: readonly PageStep[] = [
  ["it connects over WebRTC and lists every resource", async ({ machine, watched: { page } }) => {
    await page.goto(machine.url);
    await page.getByRole("button", { name: /^Connection: WebRTC/ }).waitFor();
    await page.locator("article").first().waitFor();
    const count = await page.locator("aside button.entry").count();
    assertEquals(count, [...machine.runtime.machine.nodes].length);
    await page.getByTestId("rtt").waitFor();
  }],
  ["each API opens a card without a problem", async ({ machine, watched: { page } }) => {
    for (const { name, state } of machine.runtime.machine.nodes) {
      await closeCards(page);
      const card = await cardOf(page, name.short);
      if (state === "ready") await card.locator(".body > *").first().waitFor();
      assertEquals(await card.locator("[role=alert]").allTextContents(), [], name.full);
    }
  }],
  ["a motor turns, its encoder counts, and STOP stops everything", async ({ machine, watched: { page } }) => {
    await closeCards(page);
    const card = await cardOf(page, "motor1");
    await card.getByLabel("Turns").fill("500");
    await card.getByRole("button", { name: "Go for" }).click();
    await card.getByText("moving", { exact: true }).waitFor();
    await card.getByRole("button", { name: "Code", exact: true }).click();
    assertMatch(await card.locator("pre").innerText(), /motor1\.go_for\(rpm=60, revolutions=500\)/);
    await card.getByRole("button", { name: "TypeScript" }).click();
    assertMatch(await card.locator("pre").innerText(), /motor1\.goFor\(60, 500\)/);
    await card.getByRole("button", { name: "Go", exact: true }).click();
    assertMatch(await card.locator("pre").innerText(), /motor1\.GoFor\(ctx, 60, 500, nil\)/);
    await page.getByRole("button", { name: "STOP", exact: true }).click();
    await card.getByText("at rest", { exact: true }).waitFor();
    assertEquals(await isMoving(machine, "rdk:component:motor", "motor1"), false);
  }],
  ["a base is driven by keys, and a release stops it", async ({ machine, watched: { page } }) => {
    await closeCards(page);
    const card = await cardOf(page, "base1");
    const moves = () => isMoving(machine, "rdk:component:base", "base1");
    await card.getByRole("application").focus();
    await page.keyboard.down("w");
    await until(moves);
    await page.keyboard.up("w");
    await until(async () => !await moves());
    await page.keyboard.down("ArrowLeft");
    await until(moves);
    // The focus leaves while the key is held.
    await page.getByRole("searchbox").focus();
    await until(async () => !await moves());
    await page.keyboard.up("ArrowLeft");
  }],
  ["an arm, a servo, a switch and a gripper do what their cards say", async ({ watched: { page } }) => {
    await closeCards(page);
    const arm = await cardOf(page, "arm1");
    await arm.getByRole("button", { name: "Joint 1 plus" }).click();
    await arm.locator(".joint .value", { hasText: "5.0°" }).first().waitFor();
    const servo = await cardOf(page, "servo1");
    await servo.getByRole("button", { name: "+10°" }).click();
    await servo.locator(".value", { hasText: /^10/ }).first().waitFor();
    const device = await cardOf(page, "switch1");
    await device.getByRole("button", { name: "high" }).click();
    await device.locator("button[aria-pressed=true]", { hasText: "high" }).waitFor();
    const gripper = await cardOf(page, "gripper1");
    await gripper.getByRole("button", { name: "Grab" }).click();
    for (const card of [arm, servo, device, gripper]) {
      assertEquals(await card.locator("[role=alert]").count(), 0);
    }
  }],
  [
    "a camera shows its pictures, coloured depth and points; vision draws boxes",
    async ({ watched: { page } }) => {
      await closeCards(page);
      const camera = await cardOf(page, "camera1");
      await camera.getByRole("button", { name: "Pictures" }).click();
      await camera.locator("img").first().waitFor();
      await camera.getByText("mm (blue)").waitFor();
      await camera.getByRole("button", { name: "Points" }).click();
      await camera.getByText(/[\d,.]+ points/).waitFor();
      const vision = await cardOf(page, "vision1");
      await vision.getByAltText("Picture with detections").waitFor();
    },
  ],
  [
    "DoCommand and every method of a module's own API work by their contract",
    async ({ watched: { page } }) => {
      await closeCards(page);
      const generic = await cardOf(page, "generic1");
      await generic.locator("textarea").fill('{"hello": "there"}');
      await generic.getByRole("button", { name: "Send" }).click();
      await generic.getByLabel("Answer").waitFor();
      const gizmo = await cardOf(page, "gizmo1");
      await gizmo.getByLabel("turns").fill("41");
      await gizmo.getByRole("button", { name: "Call One" }).click();
      assertStringIncludes(await gizmo.getByLabel("Answer").first().innerText(), '"turns": "42"');
      await gizmo.locator("select").first().selectOption("Out");
      await gizmo.getByLabel("turns").fill("1");
      await gizmo.getByRole("button", { name: "Call Out" }).click();
      const answers = gizmo.getByLabel("Answer");
      await until(async () => await answers.count() === 2, { found: () => gizmo.innerText() });
      const board = await cardOf(page, "board1");
      await board.getByRole("button", { name: "All methods" }).click();
      await board.getByText("viam.component.board.v1.BoardService").waitFor();
    },
  ],
  ["markup in names, readings and logs stays text", async ({ machine, watched: { page } }) => {
    await closeCards(page);
    const card = await cardOf(page, "hostile1");
    await card.locator("td", { hasText: HOSTILE_TEXT }).waitFor();
    machine.logs.logger("rdk.test").warn(HOSTILE_TEXT);
    await page.getByRole("link", { name: "Logs" }).click();
    await page.getByPlaceholder("Filter by text").fill("onerror");
    await page.locator(".record", { hasText: HOSTILE_TEXT }).first().waitFor();
    assertEquals(await page.locator("img[src=x]").count(), 0);
    assert(!(await page.title()).includes("owned"));
  }],
  ["a flood of the log stays followed, and pauses", async ({ machine, watched: { page } }) => {
    await page.getByPlaceholder("Filter by text").fill("flood");
    for (let at = 0; at < 3000; at++) machine.logs.logger("rdk.flood").info(`flood ${at}`);
    await page.locator(".record", { hasText: "flood 2999" }).waitFor();
    assert(await page.locator(".record").count() < 200);
    await page.getByRole("button", { name: "Pause" }).click();
    machine.logs.logger("rdk.flood").info("flood while paused");
    await page.getByRole("button", { name: /Paused \([1-9]/ }).waitFor();
    await page.getByRole("button", { name: /Paused/ }).click();
    await page.locator(".record", { hasText: "flood while paused" }).waitFor();
  }],
  ["the reason of an unhealthy resource and the graph are shown", async ({ watched: { page } }) => {
    await page.getByRole("link", { name: "Resources" }).click();
    const row = page.locator("tr", { hasText: "broken1" });
    assertStringIncludes(await row.getByLabel("Reasons").innerText(), "missing");
    await page.getByRole("link", { name: "Graph", exact: true }).click();
    await page.locator(".node", { hasText: "motor1" }).first().waitFor();
    assert(await page.locator(".graph path").count() > 2);
  }],
  ["a change of the configuration is seen", async ({ machine, watched: { page } }) => {
    const config = everyApi(DEMO);
    const added = { name: "added1", api: "rdk:component:motor", model: "fake", attributes: {} };
    await machine.configure({ ...config, components: [...config.components as JsonObject[], added] });
    await page.locator(".node", { hasText: "added1" }).waitFor();
    await machine.configure(config);
    await page.locator(".node", { hasText: "added1" }).waitFor({ state: "detached" });
  }],
];

/** After all others. */
const LAST_STEPS: readonly PageStep[] = [
  ["it finds the machine again after a restart", async ({ machine, watched: { page } }) => {
    await page.getByRole("link", { name: "Control", exact: true }).click();
    await machine.restart();
    await page.getByRole("button", { name: /Connection: (WebRTC|Direct)/ }).waitFor();
    const card = await cardOf(page, "sensor1");
    await card.locator("td.value").first().waitFor();
  }],
  ["nothing has left the machine, and the page has reported no error", ({ watched: { foreign, errors } }) => {
    assertEquals(foreign, []);
    assertEquals(errors, []);
    return Promise.resolve();
  }],
  ["a connection that closes before it was offered is no error of the page", async ({ machine, browser }) => {
    const { page, errors } = await openPage(browser, machine.url, { bare: true });
    await page.addInitScript(`{
      const { createDataChannel, createOffer } = RTCPeerConnection.prototype;
      let channel;
      RTCPeerConnection.prototype.createDataChannel = function (...given) {
        return channel = createDataChannel.apply(this, given);
      };
      RTCPeerConnection.prototype.createOffer = async function (...given) {
        RTCPeerConnection.prototype.createOffer = createOffer;
        channel.dispatchEvent(new Event("close"));
        await new Promise(requestAnimationFrame);
        return createOffer.apply(this, given);
      };
    }`);
    await page.goto(`${machine.url}/?way=webrtc`);
    await page.getByRole("button", { name: /^Connection: WebRTC/ }).waitFor();
    assertEquals(errors, []);
    await page.context().close();
  }],
  [
    "without WebRTC the page drives the machine directly, at 390 pixels, in the dark",
    async ({ machine, browser }) => {
      const { page, foreign, errors } = await openPage(browser, machine.url, {
        width: 390,
        height: 844,
        dark: true,
      });
      await page.goto(
        `${machine.url}/?way=direct#/control/${encodeURIComponent("rdk:component:switch/switch1")}`,
      );
      await page.getByRole("button", { name: /^Connection: Direct/ }).waitFor();
      const card = page.locator('article[data-name="switch1"]');
      await card.getByRole("button", { name: "low" }).click();
      await card.locator("button[aria-pressed=true]", { hasText: "low" }).waitFor();
      const wide = await page.evaluate("document.documentElement.scrollWidth");
      assertEquals(wide, 390);
      assertEquals([foreign, errors], [[], []]);
      await page.context().close();
    },
  ],
  [
    "what cards ask again and again is called in batches, or by itself on a machine that knows none",
    async (at) => {
      await motorByCalls(at, (batch) => batch.continue(), async (page) => {
        await page.waitForRequest(BATCHES);
      });
      const refusal = {
        "content-type": "application/grpc-web+proto",
        "grpc-status": "12",
        "grpc-message": "unknown",
      };
      let refused = 0;
      const refuse = (batch: Route) => {
        refused++;
        return batch.fulfill({ status: 200, headers: refusal, body: "" });
      };
      await motorByCalls(at, refuse, async (page) => {
        for (let call = 0; call < 5; call++) {
          await page.waitForRequest("**/viam.component.motor.v1.MotorService/*");
        }
        assertEquals(refused, 1);
      });
    },
  ],
];

const BATCHES = "**/svc.page.v1.CallBatchService/CallMany";

/** Opens a motor's card without WebRTC, where requests can be seen. */
async function motorByCalls(
  { machine, browser }: PageShared,
  onBatch: (batch: Route) => Promise<void>,
  look: (page: Page) => Promise<void>,
): Promise<void> {
  const { page, foreign, errors } = await openPage(browser, machine.url, { bare: true });
  await page.route(BATCHES, onBatch);
  const seen = look(page);
  await page.goto(`${machine.url}/?way=direct#/control/${encodeURIComponent("rdk:component:motor/motor1")}`);
  await page.locator('article[data-name="motor1"]').getByText("at rest", { exact: true }).waitFor();
  await seen;
  assertEquals([foreign, errors], [[], []]);
  await page.context().close();
}

const STEPS = [
  ...MACHINE_STEPS,
  ...DASHBOARD_STEPS,
  ...INPUT_STEPS,
  ...SAFETY_STEPS,
  ...STALE_STEPS,
  ...VIEW_STEPS,
  ...HOSTILE_STEPS,
  ...LAST_STEPS,
  ...ACCESS_STEPS,
];

// One browser for everything: its start costs more than many steps.
needingTest("the machine's page in Chromium", await browserWithPage(), async (chromium, t) => {
  // 3D without a graphics card.
  const browser = await launch(chromium, ["--enable-unsafe-swiftshader"]);
  try {
    await t.step("a machine with every published API", async (t) => {
      const machine = await startPageMachine(everyApi(DEMO));
      try {
        const watched = await openPage(browser, machine.url);
        await runPageSteps(t, STEPS, { machine, browser, watched });
      } finally {
        await machine.close();
      }
    });
    await t.step("a machine with keys shows nothing before a person has signed in", () => signIn(browser));
    await t.step("a caller with fewer rights sees them before it tries", () => fewerRights(browser));
    await t.step("the configuration of the example machine, and its scene", async (t) => {
      const machine = await startPageMachine(DEMO);
      try {
        const watched = await openPage(browser, machine.url);
        await runPageSteps(t, CONFIGURATION_STEPS, { machine, browser, watched });
        assertEquals([watched.foreign, watched.errors], [[], []]);
      } finally {
        await machine.close();
      }
    });
  } finally {
    await browser.close();
  }
});

async function signIn(browser: Browser): Promise<void> {
  const keys = {
    auth: { handlers: [{ type: "api-key", config: { "the-id": "the-key", keys: ["the-id"] } }] },
  };
  const machine = await startPageMachine({ ...DEMO, ...keys });
  try {
    const { page, errors } = await openPage(browser, machine.url);
    await page.goto(machine.url);
    await page.getByRole("heading", { name: /Sign in/ }).waitFor();
    assertEquals(await page.getByText("motor1").count(), 0);
    assertEquals(await violations(page), []);
    await page.getByLabel("Key id").fill("the-id");
    await page.getByLabel("Key", { exact: true }).fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("Key id").fill("the-id");
    await page.getByLabel("Key", { exact: true }).fill("the-key");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.locator('article[data-name="motor1"]').waitFor();
    // The key is kept for this tab alone.
    assertEquals(await page.evaluate("localStorage.getItem('svc-api-key')"), null);
    await page.goto(`${machine.url}/#/connect`);
    // A program has the key only if the person asks for it.
    await page.getByLabel("Program").getByText('payload="<key>"').waitFor();
    await page.getByLabel("Include the API key").check();
    await page.getByLabel("Program").getByText('payload="the-key"').waitFor();
    await page.goto(`${machine.url}/#/control`);
    await page.reload();
    await page.locator('article[data-name="motor1"]').waitFor();
    await page.getByRole("button", { name: /^Connection/ }).click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: /Sign in/ }).waitFor();
    assertEquals(errors, []);
    await page.context().close();
  } finally {
    await machine.close();
  }
}

async function fewerRights(browser: Browser): Promise<void> {
  const machine = await startPageMachine(DEMO, { untrusted: true });
  try {
    const { page, errors } = await openPage(browser, machine.url, { bare: true });
    await page.goto(`${machine.url}/#/configuration`);
    await page.getByText("Read only: svc-server runs with -untrusted-env").waitFor();
    for (const name of ["Add…", "Apply"]) {
      const button = page.getByRole("button", { name, exact: true });
      assert(await button.isDisabled(), name);
      assertMatch(await button.getAttribute("title") ?? "", /untrusted-env/);
    }
    await page.getByRole("button", { name: /^Connection/ }).click();
    await page.getByText("change its configuration: svc-server runs with -untrusted-env").waitFor();
    assertEquals(await violations(page), []);
    assertEquals(errors, []);
    await page.context().close();
  } finally {
    await machine.close();
  }
}
