/** What people do to a page without meaning to move a machine, and what must not go on when they stop it. */

import { assertEquals } from "@std/assert";
import type { CDPSession, Locator, Page, Route } from "playwright-core";
import type { Arm } from "../../lib/api/actuators/arm.ts";
import type { Gantry } from "../../lib/api/actuators/gantry.ts";
import type { Motor } from "../../lib/api/actuators/motor.ts";
import type { Servo } from "../../lib/api/actuators/servo.ts";
import type { InputController } from "../../lib/api/sensors/input_controller.ts";
import { until } from "../support/until.ts";
import { openPage } from "./browser.ts";
import type { PageMachine } from "./page_machine.ts";
import { isMoving, type PageShared, type PageStep } from "./page_steps.ts";

const TRIGGER = "**/viam.component.inputcontroller.v1.InputControllerService/TriggerEvent";
const GO_FOR = "**/viam.component.motor.v1.MotorService/GoFor";
const VERSION = "**/viam.robot.v1.RobotService/GetVersion";
const START_SESSION = "**/viam.robot.v1.RobotService/StartSession";
const HEARTBEAT = "**/viam.robot.v1.RobotService/SendSessionHeartbeat";

/** A gamepad whose stick the test holds. */
const GAMEPAD = `
  globalThis.stick = 0;
  Navigator.prototype.getGamepads = () => [{ id: "a pad", axes: [0, globalThis.stick] }];
`;

/** The library's heartbeats keep time in a worker; the first comes without it. */
const NO_HEARTBEATS = `
  globalThis.Worker = class {
    addEventListener() {}
    postMessage() {}
  };
`;

/** A page with nothing but the card of one resource. */
async function alone(
  { machine, browser }: PageShared,
  type: string,
  name: string,
  { script, direct = false, kind = "component" }: {
    readonly script?: string;
    readonly direct?: boolean;
    readonly kind?: "component" | "service";
  } = {},
): Promise<{ page: Page; card: Locator; close(): Promise<void> }> {
  const { page, errors } = await openPage(browser, machine.url, { bare: true });
  if (script !== undefined) await page.addInitScript(script);
  const id = encodeURIComponent(`rdk:${kind}:${type}/${name}`);
  await page.goto(`${machine.url}/${direct ? "?way=direct" : ""}#/control/${id}`);
  await page.getByTestId("rtt").waitFor();
  const close = async () => {
    assertEquals(errors, []);
    await page.context().close();
  };
  return { page, card: page.locator(`article[data-name="${name}"]`), close };
}

async function stops(page: Page, moves: () => Promise<boolean>): Promise<void> {
  await page.getByRole("status").getByText("Everything was told to stop").waitFor();
  // What is held is sent again five times a second.
  await page.waitForTimeout(700);
  assertEquals(await moves(), false);
}

/** The key that was held since before the stop is let go, and another one counts. */
async function takesAnotherKey(page: Page, moves: () => Promise<boolean>): Promise<void> {
  await page.keyboard.up("w");
  await page.keyboard.down("s");
  await until(moves);
  await page.keyboard.up("s");
  await until(async () => !await moves());
}

function stickOf(machine: PageMachine): () => Promise<number | undefined> {
  const pad = machine.runtime.machine.find("rdk:component:input_controller", "pad1") as InputController;
  return async () => (await pad.getEvents()).find(({ control }) => control === "AbsoluteX")?.value;
}

/**
 * A finger that goes from a share of a control's width by some pixels, in steps as a screen reports them. It begins once
 * the control is in view and rests: an earlier finger may have scrolled the page.
 */
async function swipe(
  session: CDPSession,
  control: Locator,
  share: number,
  x: number,
  y: number,
): Promise<void> {
  const { width, height } = (await control.boundingBox())!;
  const position = { x: width * share, y: height / 2 };
  await control.tap({ trial: true, position });
  const box = (await control.boundingBox())!;
  const from = { x: box.x + position.x, y: box.y + position.y };
  const touch = (type: "touchStart" | "touchMove" | "touchEnd", at?: number) =>
    session.send("Input.dispatchTouchEvent", {
      type,
      touchPoints: at === undefined ? [] : [{ x: from.x + x * at, y: from.y + y * at }],
    });
  await touch("touchStart", 0);
  for (let step = 1; step <= 10; step++) await touch("touchMove", step / 10);
  await touch("touchEnd");
}

export const SAFETY_STEPS: readonly PageStep[] = [
  ["what a page has moved stops when it is closed, and goes on while it is open", async (shared) => {
    const moves = () => isMoving(shared.machine, "rdk:component:motor", "motor1");
    for (const direct of [false, true]) {
      const { page, card, close } = await alone(shared, "motor", "motor1", { direct });
      await card.getByRole("button", { name: "Set speed" }).click();
      await until(moves);
      // Longer than a session lives without heartbeats.
      await page.waitForTimeout(3000);
      assertEquals(await moves(), true);
      await close();
      await until(async () => !await moves());
    }
  }],
  ["after a sleep of the browser's computer a movement begins anew", async (shared) => {
    const moves = () => isMoving(shared.machine, "rdk:component:motor", "motor1");
    for (const direct of [false, true]) {
      const { card, close } = await alone(shared, "motor", "motor1", { script: NO_HEARTBEATS, direct });
      for (let time = 0; time < 2; time++) {
        await card.getByRole("button", { name: "Set speed" }).click();
        await until(moves);
        await until(async () => !await moves());
      }
      assertEquals(await card.getByRole("alert").count(), 0);
      await close();
    }
  }],
  ["a movement that waits for its session is not made after a stop", async (shared) => {
    const moves = () => isMoving(shared.machine, "rdk:component:motor", "motor1");
    for (const stop of ["Stop", "STOP"]) {
      const { page, card, close } = await alone(shared, "motor", "motor1", { direct: true });
      const begins = Promise.withResolvers<void>();
      await page.route(START_SESSION, async (route) => {
        await begins.promise;
        await route.continue();
      });
      const asked = page.waitForRequest(START_SESSION);
      await card.getByRole("button", { name: "Set speed" }).click();
      await asked;
      await page.getByRole("button", { name: stop, exact: true }).click();
      await page.waitForTimeout(200);
      begins.resolve();
      await card.getByText("it was stopped before it began").waitFor();
      assertEquals(await moves(), false);
      await card.getByRole("button", { name: "Set speed" }).click();
      await until(moves);
      await page.getByRole("button", { name: "STOP", exact: true }).click();
      await until(async () => !await moves());
      await close();
    }
  }],
  [
    "Shift+Escape stops everything from wherever the focus is, a terminal and an editor too",
    async (shared) => {
      const { machine } = shared;
      const motor = machine.runtime.machine.find("rdk:component:motor", "motor1") as Motor;
      const moves = () => isMoving(machine, "rdk:component:motor", "motor1");
      const { page, close } = await alone(shared, "motor", "motor1");
      const places: readonly [place: string, focus: () => Promise<void>][] = [
        [`control/${encodeURIComponent("rdk:service:shell/shell1")}`, async () => {
          const card = page.locator('article[data-name="shell1"]');
          await card.getByRole("button", { name: "Open a terminal" }).click();
          const screen = card.locator(".xterm-rows");
          await until(async () => (await screen.innerText()).trim() !== "");
          await page.keyboard.type("echo");
        }],
        ["configuration", () => page.locator(".cm-content").first().click()],
        ["resources", () => page.getByRole("searchbox").first().click()],
      ];
      for (const [place, focus] of places) {
        await page.goto(`${machine.url}/#/${place}`);
        await focus();
        await motor.setRpm(10);
        assertEquals(await moves(), true, place);
        await page.keyboard.press("Shift+Escape");
        await until(async () => !await moves());
      }
      await close();
    },
  ],
  ["after STOP a base stands, although keys, pad or gamepad are still held", async (shared) => {
    const { machine } = shared;
    const moves = () => isMoving(machine, "rdk:component:base", "base1");
    const { page, card, close } = await alone(shared, "base", "base1", { script: GAMEPAD });
    const pad = card.getByRole("application");
    await pad.focus();
    await page.keyboard.down("w");
    await until(moves);
    await page.keyboard.press("Shift+Escape");
    await stops(page, moves);
    await takesAnotherKey(page, moves);

    const box = (await pad.boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + 10);
    await page.mouse.down();
    await until(moves);
    await page.keyboard.press("Shift+Escape");
    await page.mouse.move(box.x + box.width / 2, box.y + 20);
    await stops(page, moves);
    await page.mouse.up();

    await card.getByRole("button", { name: "Drive by gamepad" }).click();
    await page.waitForTimeout(300);
    await page.evaluate("stick = -1");
    await until(moves);
    await page.keyboard.press("Shift+Escape");
    await stops(page, moves);
    // The Stop of the card, too; the stick counts again when it has been at rest.
    await page.evaluate("stick = 0");
    await page.waitForTimeout(300);
    await page.evaluate("stick = -1");
    await until(moves);
    await card.getByRole("button", { name: "Stop", exact: true }).click();
    await page.waitForTimeout(700);
    assertEquals(await moves(), false);
    await close();
  }],
  ["after STOP on one page a base stands, although keys or pad are held on another page", async (shared) => {
    const { machine } = shared;
    const moves = () => isMoving(machine, "rdk:component:base", "base1");
    const other = await alone(shared, "motor", "motor1");
    for (const direct of [false, true]) {
      const { page, card, close } = await alone(shared, "base", "base1", { direct });
      const pad = card.getByRole("application");
      const stopThere = async () => {
        await other.page.getByRole("button", { name: "STOP", exact: true }).click();
        await stops(other.page, moves);
        await card.getByText("everything was stopped: let go first").waitFor();
        assertEquals(await moves(), false);
      };
      await pad.focus();
      await page.keyboard.down("w");
      await until(moves);
      await stopThere();
      await takesAnotherKey(page, moves);

      const box = (await pad.boundingBox())!;
      await page.mouse.move(box.x + box.width / 2, box.y + 10);
      await page.mouse.down();
      await until(moves);
      await stopThere();
      await page.mouse.move(box.x + box.width / 2, box.y + 20);
      await page.waitForTimeout(500);
      assertEquals(await moves(), false);
      await page.mouse.up();
      await page.mouse.down();
      await until(moves);
      await page.mouse.up();
      await until(async () => !await moves());
      await close();
    }
    await other.close();
  }],
  ["after STOP a stick of an input controller is at rest, although it is still held", async (shared) => {
    const { page, card, close } = await alone(shared, "input_controller", "pad1");
    const present = stickOf(shared.machine);
    const stick = card.getByRole("slider", { name: "AbsoluteX", exact: true });
    // Events are listed while the stick is held, and it stays where it is.
    const box = (await stick.boundingBox())!;
    const at = (share: number) => page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
    await at(0.5);
    await page.mouse.down();
    await at(0.8);
    await until(async () => (await present() ?? 0) > 0.5);
    await page.keyboard.press("Shift+Escape");
    await at(0.9);
    await until(async () => await present() === 0);
    await at(0.7);
    await page.waitForTimeout(300);
    assertEquals(await present(), 0);
    await page.mouse.up();
    await at(0.5);
    await page.mouse.down();
    await at(0.2);
    await until(async () => (await present() ?? 0) < -0.5);
    await page.mouse.up();
    await until(async () => await present() === 0);
    await close();
  }],
  ["nothing moves under a finger when a stop or a failure is told of", async (shared) => {
    const whole = await alone(shared, "input_controller", "pad1", { direct: true });
    const stick = whole.card.getByRole("slider", { name: "AbsoluteX", exact: true });
    const before = await stick.boundingBox();
    await whole.page.keyboard.press("Shift+Escape");
    await whole.page.getByText("Everything was told to stop").waitFor();
    assertEquals(await stick.boundingBox(), before);
    await whole.page.route(VERSION, (route) => route.abort());
    await whole.page.getByText("No connection to the machine").waitFor();
    assertEquals(await stick.boundingBox(), before);
    await whole.page.context().close();

    for (
      const [kind, type, name, button, failing] of [
        ["service", "slam", "slam1", "Save the state", "GetPosition"],
        ["component", "board", "board1", "Write", "ReadAnalogReader"],
      ] as const
    ) {
      const { page, card, close } = await alone(shared, type, name, { direct: true, kind });
      const control = card.getByRole("button", { name: button });
      await card.locator("canvas").first().waitFor();
      const rests = await control.boundingBox();
      await page.route(`**/${failing}`, (route) => route.fulfill({ status: 500 }));
      await card.locator(".problem").waitFor();
      assertEquals(await control.boundingBox(), rests, name);
      await close();
    }
  }],
  ["a stick ends at rest although its calls would overtake each other", async (shared) => {
    const { page, card, close } = await alone(shared, "input_controller", "pad1", { direct: true });
    const sent: Route[] = [];
    const first = Promise.withResolvers<void>();
    await page.route(TRIGGER, async (route) => {
      if (sent.push(route) === 1) await first.promise;
      await route.continue();
    });
    const stick = card.getByRole("slider", { name: "AbsoluteX", exact: true });
    await stick.focus();
    for (const key of ["ArrowRight", "ArrowRight", "ArrowLeft"]) await page.keyboard.press(key);
    const south = card.getByRole("button", { name: "South" });
    await south.focus();
    await page.keyboard.press("Enter");
    await until(() => sent.length > 0);
    await page.waitForTimeout(300);
    // The others wait until the machine has answered the first.
    assertEquals(sent.length, 1);
    first.resolve();
    await until(async () => await stickOf(shared.machine)() === 0);
    await card.locator("tr", { hasText: "ButtonSouth" }).getByText("ButtonRelease").waitFor();
    await close();
  }],
  ["a finger that scrolls past a slider, or rests on it, moves nothing", async (shared) => {
    const { machine, browser } = shared;
    const motor = machine.runtime.machine.find("rdk:component:motor", "motor1") as Motor;
    const servo = machine.runtime.machine.find("rdk:component:servo", "servo1") as Servo;
    await motor.stop();
    await servo.move(20);
    const context = await browser.newContext({
      viewport: { width: 390, height: 600 },
      hasTouch: true,
      isMobile: true,
    });
    const page = await context.newPage();
    const session = await context.newCDPSession(page);
    const sliderOf = async (type: string, name: string, label: string) => {
      await page.goto(`${machine.url}/#/control/${encodeURIComponent(`rdk:component:${type}/${name}`)}`);
      const slider = page.locator(`article[data-name="${name}"]`).getByRole("slider", { name: label });
      await slider.waitFor();
      await page.getByTestId("rtt").waitFor();
      return slider;
    };
    const power = await sliderOf("motor", "motor1", "Power");
    const isOn = async () => (await motor.isPowered()).isOn;
    for (const [x, y] of [[0, 150], [0, -150], [4, -60], [0, 0]] as const) {
      await swipe(session, power, 0.8, x, y);
      await page.waitForTimeout(200);
      assertEquals([await power.inputValue(), await isOn()], ["0", false], `${x}, ${y}`);
    }
    await swipe(session, power, 0.5, 60, 2);
    await until(isOn);
    await motor.stop();
    const angle = await sliderOf("servo", "servo1", "Move to");
    await until(async () => await angle.inputValue() === "20");
    await swipe(session, angle, 0.9, 2, -150);
    await page.waitForTimeout(200);
    assertEquals([await angle.inputValue(), await servo.getPosition()], ["20", 20]);
    await swipe(session, angle, 0.2, 60, 0);
    await until(async () => await servo.getPosition() > 30);
    await context.close();
  }],
  [
    "a finger that scrolls past a button of an input controller presses nothing, a tap and a hold do",
    async (shared) => {
      const { machine, browser } = shared;
      const pad = machine.runtime.machine.find("rdk:component:input_controller", "pad1") as InputController;
      const last = async () =>
        (await pad.getEvents()).find(({ control }) => control === "ButtonNorth")?.event;
      const context = await browser.newContext({
        viewport: { width: 390, height: 400 },
        hasTouch: true,
        isMobile: true,
      });
      const page = await context.newPage();
      const session = await context.newCDPSession(page);
      await page.goto(
        `${machine.url}/#/control/${encodeURIComponent("rdk:component:input_controller/pad1")}`,
      );
      const north = page.getByRole("button", { name: "North" });
      await page.getByTestId("rtt").waitFor();
      for (const y of [-120, 120]) await swipe(session, north, 0.5, 0, y);
      await page.waitForTimeout(300);
      assertEquals(await last(), undefined);
      await north.tap();
      await until(async () => await last() === "ButtonRelease");
      const { x, y } = (await north.boundingBox())!;
      await session.send("Input.dispatchTouchEvent", {
        type: "touchStart",
        touchPoints: [{ x: x + 5, y: y + 5 }],
      });
      await until(async () => await last() === "ButtonPress");
      await session.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
      await until(async () => await last() === "ButtonRelease");
      await context.close();
    },
  ],
  [
    "on a phone a finger that scrolls over the pad of a base drives nothing, and one on its dot drives",
    async (shared) => {
      const { machine, browser } = shared;
      const moves = () => isMoving(machine, "rdk:component:base", "base1");
      const context = await browser.newContext({
        viewport: { width: 390, height: 500 },
        hasTouch: true,
        isMobile: true,
      });
      const page = await context.newPage();
      const session = await context.newCDPSession(page);
      await page.addInitScript(`sessionStorage["svc-open-cards"] ??= "[]"`);
      await page.goto(`${machine.url}/#/control/${encodeURIComponent("rdk:component:base/base1")}`);
      const pad = page.locator('article[data-name="base1"]').getByRole("application");
      await page.getByTestId("rtt").waitFor();
      const place = async () => (await pad.boundingBox())!;
      const touch = (type: "touchStart" | "touchMove" | "touchEnd", x = 0, y = 0) =>
        session.send("Input.dispatchTouchEvent", {
          type,
          touchPoints: type === "touchEnd" ? [] : [{ x, y }],
        });

      await pad.scrollIntoViewIfNeeded();
      const before = await place();
      let driven = false;
      await touch("touchStart", before.x + 60, before.y + 140);
      for (let way = 10; way <= 120; way += 10) {
        await touch("touchMove", before.x + 60, before.y + 140 - way);
        await page.waitForTimeout(30);
        driven ||= await moves();
      }
      await touch("touchEnd");
      assertEquals(driven, false);
      await until(async () => (await place()).y < before.y - 40);

      const { x, y, width, height } = await place();
      const [middleX, middleY] = [x + width / 2, y + height / 2];
      await touch("touchStart", middleX + 8, middleY + 8);
      await page.waitForTimeout(300);
      assertEquals(await moves(), false);
      await touch("touchMove", middleX + 8, middleY - 40);
      await until(moves);
      await touch("touchMove", middleX + 8, middleY - 60);
      assertEquals((await place()).y, y, "what drives does not scroll");
      await touch("touchEnd");
      await until(async () => !await moves());
      await context.close();
    },
  ],
  ["the wheel scrolls, and changes no number", async (shared) => {
    for (
      const [type, name, label] of [["motor", "motor1", "Turns"], ["base", "base1", "Distance"]] as const
    ) {
      const { page, card, close } = await alone(shared, type, name);
      const field = card.getByLabel(label);
      await field.fill("7");
      await field.hover();
      await page.mouse.wheel(0, 100);
      await page.mouse.wheel(0, -300);
      await page.waitForTimeout(200);
      assertEquals(await field.inputValue(), "7");
      await close();
    }
  }],
  ["sliders begin where the device is, also when others have moved it", async (shared) => {
    const { machine } = shared;
    const values = (card: Locator) =>
      card.getByRole("slider").evaluateAll((all) =>
        all.map((one) => Number((one as unknown as { readonly value: string }).value))
      );
    const arm = machine.runtime.machine.find("rdk:component:arm", "arm1") as Arm;
    const joints = (await arm.getJointPositions()).length;
    const { page, card, close } = await alone(shared, "arm", "arm1");
    await until(async () => (await values(card)).length === joints);
    const turned = Array.from({ length: joints }, () => 8);
    await arm.moveToJointPositions(turned);
    await until(async () => (await values(card)).every((value) => value === 8));
    await card.getByLabel("Joint 1, degrees").focus();
    await page.keyboard.press("ArrowRight");
    await arm.moveToJointPositions(turned.map((value, at) => at === 1 ? 9 : value));
    await until(async () => (await values(card))[1] === 9);
    await card.getByRole("button", { name: "Move to the sliders" }).click();
    const wanted = [8.5, 9, ...turned.slice(2)];
    await until(async () => String(await arm.getJointPositions()) === String(wanted));
    await arm.moveToJointPositions(turned);
    await until(async () => (await values(card)).every((value) => value === 8));
    await close();

    const gantry = machine.runtime.machine.find("rdk:component:gantry", "gantry1") as Gantry;
    const second = await alone(shared, "gantry", "gantry1");
    await gantry.moveToPosition([120], [1000]);
    await until(async () => (await values(second.card))[0] === 120);
    await second.close();

    const servo = machine.runtime.machine.find("rdk:component:servo", "servo1") as Servo;
    await servo.move(35);
    const third = await alone(shared, "servo", "servo1");
    await until(async () => (await values(third.card))[0] === 35);
    await third.card.getByRole("slider").focus();
    for (let step = 0; step < 3; step++) await third.page.keyboard.press("ArrowRight");
    await until(async () => await servo.getPosition() === 38);
    await third.close();
  }],
  ["a movement that waits for a lost connection is not made later, and is told of", async (shared) => {
    const moves = () => isMoving(shared.machine, "rdk:component:motor", "motor1");
    const { page, card, close } = await alone(shared, "motor", "motor1", { direct: true });
    const away = Promise.withResolvers<void>();
    let isAway = true;
    await page.route(GO_FOR, async (route) => {
      await away.promise;
      await route.continue();
    });
    await card.getByLabel("Turns").fill("500");
    await card.getByRole("button", { name: "Go for" }).click();
    await page.route(VERSION, (route) => isAway ? route.abort() : route.continue());
    await card.getByText("the connection ended before the machine answered").waitFor();
    isAway = false;
    away.resolve();
    await page.getByTestId("rtt").waitFor();
    await page.waitForTimeout(500);
    assertEquals(await moves(), false);
    await close();
  }],
  ["what was moved stops when its direct connection ends, although the page stays", async (shared) => {
    const moves = () => isMoving(shared.machine, "rdk:component:motor", "motor1");
    const { page, card, close } = await alone(shared, "motor", "motor1", { direct: true });
    await card.getByRole("button", { name: "Set speed" }).click();
    await until(moves);
    await page.waitForRequest(HEARTBEAT);
    await page.getByRole("button", { name: /^Connection: / }).click();
    await page.getByRole("radio", { name: /^WebRTC/ }).check();
    await page.getByRole("button", { name: /^Connection: WebRTC/ }).waitFor();
    await until(async () => !await moves());
    await close();
  }],
];
