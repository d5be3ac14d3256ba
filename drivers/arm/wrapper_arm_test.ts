import { assertEquals, assertRejects } from "@std/assert";
import { SvcError } from "../../lib/base/error.ts";
import { forwardKinematics, parseKinematics } from "../../lib/geometry/kinematics.ts";
import { construct, namedBy } from "../../tests/support/construct.ts";
import { settle } from "../../lib/base/clock.ts";
import { type Arm, ArmApi, type MoveOptions } from "../../lib/api/actuators/arm.ts";
import { ResourceName } from "../../lib/resource/name.ts";
import { type Call, unsupported } from "../../lib/resource/resource.ts";
import { FakeArm } from "./fake.ts";
import { WrapperArm } from "./wrapper_arm.ts";

const FILE = "tests/data/kinematics/two_axes.urdf";
const ATTRIBUTES = { "arm-name": "actual", "model-path": FILE };

Deno.test("wrapper_arm: the joints are those of the other arm, poses and limits those of the file", async () => {
  const actual = await construct(FakeArm, { "model-path": FILE }, { name: "actual" });
  const arm = await construct(WrapperArm, ATTRIBUTES, { dependencies: [actual] });
  const model = await parseKinematics(await Deno.readFile(FILE), "urdf", "test");
  const goal = model.joints.map(({ min, max }) => min + (max - min) / 4);
  await arm.moveToJointPositions(goal);
  assertEquals(await actual.getJointPositions(), goal);
  assertEquals(await arm.getEndPosition(), forwardKinematics(model, goal));
  assertEquals((await arm.getKinematics()).format, "urdf");
  const far = model.joints.map(({ max }) => max + 1);
  await assertRejects(() => arm.moveToJointPositions(far), SvcError, "needs to be within range");
  assertEquals(namedBy(WrapperArm, ATTRIBUTES), ["actual"]);
});

Deno.test("wrapper_arm: a file with another number of joints, or none, is refused", async () => {
  const actual = await construct(FakeArm, { "arm-model": "ur5e" }, { name: "actual" });
  await assertRejects(
    () => construct(WrapperArm, ATTRIBUTES, { dependencies: [actual] }),
    SvcError,
    "wanted as many",
  );
  const missing = { ...ATTRIBUTES, "model-path": "none.json" };
  await assertRejects(() => construct(WrapperArm, missing, { dependencies: [actual] }), Error, "none.json");
});

/** An arm whose movements end when the test says so, or by a stop, which is no error to it. */
class SlowArm implements Pick<Arm, "name" | "getJointPositions" | "moveToJointPositions" | "stop"> {
  readonly name = ResourceName.of(ArmApi.name, "actual");
  readonly commands: string[] = [];
  #end = Promise.withResolvers<void>();
  /** Ends before the arm answers where its joints are. */
  reading = () => Promise.resolve();

  async getJointPositions(): Promise<readonly number[]> {
    await this.reading();
    return [0, 0];
  }

  moveToJointPositions(positions: readonly number[]): Promise<void> {
    this.commands.push(`to ${positions}`);
    this.#end = Promise.withResolvers();
    return this.#end.promise;
  }

  stop(call?: Call): Promise<void> {
    this.commands.push(`stop ${JSON.stringify(call?.extra ?? {})}`);
    this.arrive();
    return Promise.resolve();
  }

  arrive(): void {
    this.#end.resolve();
  }
}

class ThroughArm extends SlowArm {
  moveThroughJointPositions(positions: readonly (readonly number[])[], options?: MoveOptions): Promise<void> {
    this.commands.push(`through ${positions.length} at ${options?.maxVelDegsPerSec}`);
    return Promise.resolve();
  }
}

class StepArm extends SlowArm {
  moveThroughJointPositions(): Promise<void> {
    return Promise.reject(unsupported(this.name, "MoveThroughJointPositions"));
  }
}

async function wrapped<A extends SlowArm>(actual: A): Promise<{ arm: Arm; actual: A }> {
  const arm = await construct(WrapperArm, ATTRIBUTES, { dependencies: [actual as unknown as Arm] });
  return { arm, actual };
}

const ABORTED = "stopped before reaching its target";

Deno.test("wrapper_arm: a stop ends a row of positions, also if the other arm calls a stop no error", async () => {
  const { arm, actual } = await wrapped(new StepArm());
  const moving = arm.moveThroughJointPositions([[0.1, 0.1], [0.2, 0.2], [0.3, 0.3]]);
  const ended = assertRejects(() => moving, SvcError, ABORTED);
  await settle();
  actual.arrive();
  await settle();
  await arm.stop({ extra: { gently: true } });
  await ended;
  await settle();
  assertEquals(actual.commands, ["to 0.1,0.1", "to 0.2,0.2", 'stop {"gently":true}']);
});

Deno.test("wrapper_arm: a stop counts while the joints are read for a movement", async () => {
  const { arm, actual } = await wrapped(new StepArm());
  const pose = await arm.getEndPosition();
  for (const move of [() => arm.moveToJointPositions([0.1, 0.1]), () => arm.moveToPosition(pose)]) {
    const read = Promise.withResolvers<void>();
    actual.reading = () => read.promise;
    const moving = move();
    const ended = assertRejects(() => moving, SvcError, ABORTED);
    await settle();
    await arm.stop();
    read.resolve();
    await ended;
    await settle();
    assertEquals(actual.commands.splice(0), ["stop {}"]);
  }
});

Deno.test("wrapper_arm: a row of positions goes to the other arm at once, with its limits of speed", async () => {
  const { arm, actual } = await wrapped(new ThroughArm());
  await arm.moveThroughJointPositions([[0.1, 0.1], [0.2, 0.2]], { maxVelDegsPerSec: 5 });
  await arm.moveThroughJointPositions([]);
  const far = [[0.1, 0.1], [1e6, 0]];
  await assertRejects(() => arm.moveThroughJointPositions(far), SvcError, "needs to be within range");
  assertEquals(actual.commands, ["through 2 at 5", "stop {}"]);
});
