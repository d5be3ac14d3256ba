/**
 * What the published TypeScript library's own tests with a server do, in their order: come, go and come again; dial
 * elsewhere and change one's mind; then each call that they make, and a session that heartbeats keep.
 *
 * `valid` and `invalid` are how to dial the machine, and how to dial nothing. `lasting` says that the library goes on
 * with heartbeats after it has disconnected, as it does over gRPC.
 */

const MACHINE = ["fake_arm", "fake_camera", "fake_vision", "motor1"];

export async function specs(sdk, { valid, invalid, lasting = false }) {
  const seen = {};
  const heard = [];
  /** As they do, with a client of its own for each of their tests. */
  const client = () => {
    const made = new sdk.RobotClient();
    for (const event of ["dialing", "connecting", "connected", "disconnecting", "disconnected"]) {
      made.on(event, ({ attempt } = {}) => heard.push(event === "dialing" ? `dialing ${attempt}` : event));
    }
    return made;
  };

  let robot = client();
  await robot.dial(valid);
  seen.resources = (await robot.resourceNames()).map(({ subtype, name }) => `${subtype}/${name}`).sort();
  await robot.disconnect();
  await robot.dial(valid);
  seen.again = (await robot.resourceNames()).length;
  seen.lifecycle = heard.splice(0);
  await robot.disconnect();

  robot = client();
  seen.attempts = [];
  for (let time = 0; time < 2; time++) {
    const last = invalid.noReconnect ? "dialing 0" : "dialing 1";
    const hasTried = () =>
      heard.includes("dialing 0") && heard.includes(last) && heard.at(-1) === "disconnected";
    seen.attempts.push(
      // A dial during another attempt, perhaps one of the library's own to reconnect, ends with that: it is repeated.
      await until(() => {
        heard.splice(0);
        // It ends when somebody dials again.
        robot.dial(invalid).catch(() => {});
        return until(hasTried, 100);
      }, 5),
    );
  }
  // A dial that was given up may end late, and takes the library's new connection with it.
  await until(async () => {
    await robot.dial(valid);
    seen.afterwards = (await robot.resourceNames().catch(() => [])).length;
    return seen.afterwards > 0;
  });

  const version = await robot.getVersion();
  seen.version = { platform: version.platform, version: version.version, apiVersion: version.apiVersion };
  const status = await robot.getMachineStatus();
  seen.status = {
    state: typeof status.state,
    named: MACHINE.filter((name) => status.resources.some((one) => one.name?.name === name)),
    hasConfig: status.config !== undefined,
  };

  const arm = new sdk.ArmClient(robot, "fake_arm");
  const { x, y, z } = await arm.getEndPosition();
  seen.end = [x, y, z].map((one) => typeof one);
  const joints = [(await arm.getJointPositions()).values];
  await arm.moveToJointPositions([45]);
  seen.joints = [...joints, (await arm.getJointPositions()).values];

  const camera = new sdk.CameraClient(robot, "fake_camera");
  seen.supportsPcd = typeof (await camera.getProperties()).supportsPcd;
  const { images, metadata } = await camera.getImages();
  seen.images = [images.length, metadata !== undefined];

  const vision = new sdk.VisionClient(robot, "fake_vision");
  const { detectionsSupported, classificationsSupported, objectPointCloudsSupported } = await vision
    .getProperties();
  seen.vision = [detectionsSupported, classificationsSupported, objectPointCloudsSupported].map((one) =>
    typeof one
  );
  seen.detections = (await vision.getDetectionsFromCamera("fake_camera")).length;
  const all = await vision.captureAllFromCamera("fake_camera", {
    returnImage: true,
    returnClassifications: true,
    returnDetections: true,
    returnObjectPointClouds: true,
  });
  seen.captured = [typeof all.image, all.classifications, all.detections, all.objectPointClouds].map((one) =>
    Array.isArray(one) ? "list" : one
  );

  seen.session = await session(sdk, robot, valid, lasting);
  await robot.stopAll();
  await robot.disconnect();
  return seen;
}

/**
 * A motor runs for as long as the heartbeats of who has started it come, and no longer. The library begins a session when
 * it is asked for one, as its tests do, and not by itself.
 */
async function session(sdk, robot, valid, lasting) {
  const watcher = new sdk.RobotClient();
  await watcher.dial({ ...valid, disableSessions: true });
  const watched = new sdk.MotorClient(watcher, "motor1");
  const before = robot.sessionId;
  const ids = [];
  for (let time = 0; time < 2; time++) {
    ids.push((await robot.sessionManager.getSessionMetadata()).get("viam-sid"));
  }
  const same = before === "" && ids.every((id) => id !== "" && id === robot.sessionId);
  await new sdk.MotorClient(robot, "motor1").setPower(0.5);
  // Longer than the machine waits for a heartbeat.
  await pause(3_500);
  const [kept] = await watched.isPowered();
  const listed = (await watcher.getSessions()).length;
  await robot.disconnect();
  const stopped = lasting || await until(async () => !(await watched.isPowered())[0]);
  await watcher.disconnect();
  await robot.dial(valid);
  return { same, listed, kept, stopped };
}

/** Whether it comes true, asked again after a tenth of a second: for half a minute, unless told otherwise. */
async function until(isTrue, triesMax = 300) {
  for (let tries = 0; tries < triesMax; tries++) {
    if (await isTrue()) return true;
    await pause(100);
  }
  return false;
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
