/**
 * A tour of the example machine with the published TypeScript SDK: what there is, and whether it does what it is told.
 *
 * Runs wherever the SDK does. It gives back what it saw; who started it judges. `dial` connects as its user wants.
 */
export async function tour(sdk, dial) {
  const { ArmClient, BoardClient, CameraClient, EncoderClient, MotionClient, MotorClient } = sdk;
  const { VisionClient } = sdk;
  const robot = await dial();
  const seen = { webrtc: await isConnected(robot.peerConnection) };

  seen.resources = (await robot.resourceNames()).map(({ subtype, name }) => `${subtype}/${name}`).sort();
  const { platform, version, apiVersion } = await robot.getVersion();
  seen.version = { platform, version, apiVersion };
  const status = await robot.getMachineStatus();
  seen.machine = {
    state: status.state,
    unhealthy: status.resources.filter((one) => one.error !== "").length,
  };

  const arm = new ArmClient(robot, "arm1");
  const { values: joints } = await arm.getJointPositions();
  const wantedJoints = joints.map((_, index) => 10 + index);
  await arm.moveToJointPositions(wantedJoints);
  seen.joints = {
    wanted: wantedJoints,
    found: (await arm.getJointPositions()).values,
  };
  const { x, y, z, oX, oY, oZ, theta } = await arm.getEndPosition();
  const goal = { x: x + 20, y: y - 10, z: z - 15, oX, oY, oZ, theta };
  await arm.moveToPosition(goal);
  const reached = await arm.getEndPosition();
  seen.armErrorMm = Math.hypot(
    reached.x - goal.x,
    reached.y - goal.y,
    reached.z - goal.z,
  );
  seen.kinematicsBytes = JSON.stringify(await arm.getKinematics()).length;

  const motion = new MotionClient(robot, "builtin");
  const place = { x: 400, y: -100, z: 500, oX: 0, oY: 0, oZ: -1, theta: 0 };
  const moved = await motion.move({ referenceFrame: "world", pose: place }, "camera1");
  const { pose } = await motion.getPose("camera1", "world", []);
  seen.motion = { moved, errorMm: Math.hypot(pose.x - place.x, pose.y - place.y, pose.z - place.z) };

  const motor = new MotorClient(robot, "motor1");
  const encoder = new EncoderClient(robot, "encoder1");
  const [before] = await encoder.getPosition();
  await motor.goFor(120, 0.5);
  const [after] = await encoder.getPosition();
  seen.encoder = { before, after };
  await motor.setPower(0.5);
  const powered = await motor.isPowered();
  seen.power = {
    on: powered[0] ?? powered.isOn,
    pct: powered[1] ?? powered.powerPct,
  };

  const board = new BoardClient(robot, "board1");
  await board.setGPIO("20", true);
  seen.gpio = await board.getGPIO("20");
  const ticks = [];
  const streaming = board.streamTicks(["encoder-a"], ticks, {}, {
    timeoutMs: 20_000,
  }).catch(() => {});
  const named = () => ticks.filter((tick) => tick.pinName === "encoder-a");
  while (named().length < 3) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  seen.ticks = named().slice(0, 3).map(({ high, time }) => ({
    high,
    time: String(time),
  }));

  const camera = new CameraClient(robot, "camera1");
  const { images, metadata } = await camera.getImages();
  seen.images = images.map(({ sourceName, mimeType, image }) => ({
    sourceName,
    mimeType,
    bytes: image.length,
  }));
  seen.capturedAt = metadata.capturedAt !== undefined;
  seen.pointCloudBytes = (await camera.getPointCloud()).length;
  seen.cameraProperties = {
    supportsPcd: (await camera.getProperties()).supportsPcd,
  };

  const vision = new VisionClient(robot, "vision1");
  const { objectPointCloudsSupported, detectionsSupported } = await vision
    .getProperties();
  seen.visionProperties = { objectPointCloudsSupported, detectionsSupported };
  seen.detections = (await vision.getDetectionsFromCamera("camera1")).length;
  const all = await vision.captureAllFromCamera("camera1", {
    returnImage: true,
    returnClassifications: true,
    returnDetections: true,
    returnObjectPointClouds: true,
  });
  seen.captured = {
    image: all.image !== undefined,
    detections: all.detections.length,
  };

  if (seen.webrtc && globalThis.document) seen.video = await video(sdk, robot);

  await robot.stopAll();
  seen.stopped = (await motor.isMoving()) === false;
  try {
    await new MotorClient(robot, "nowhere").isMoving();
  } catch (error) {
    seen.missing = { code: error.code, message: error.rawMessage };
  }

  // An error of a stream, which comes before its first message.
  seen.missingPin = await board.streamTicks(["nowhere"], []).then(() => "none", ({ message }) => message);

  await robot.disconnect();
  const again = await dial();
  seen.again = (await again.resourceNames()).length;
  await again.disconnect();
  void streaming;
  return seen;
}

/** What a page sees of a camera's video: its sizes, in the order in which it asks for them. */
async function video(sdk, robot) {
  const streams = new sdk.StreamClient(robot);
  const stream = await streams.getStream("camera1");
  const screen = document.createElement("video");
  screen.muted = true;
  screen.srcObject = stream;
  document.body.append(screen);
  void screen.play();
  const pictures = async (count) => {
    for (; count > 0; count--) {
      await new Promise((resolve) => screen.requestVideoFrameCallback(resolve));
    }
    return [screen.videoWidth, screen.videoHeight];
  };
  const own = await pictures(3);
  const offered = (await streams.getOptions("camera1")).map(({ width, height }) => [width, height]);
  await streams.setOptions("camera1", ...offered[1]);
  const half = offered[1];
  let small = await pictures(1);
  for (let tries = 0; tries < 50 && small[0] !== half[0]; tries++) small = await pictures(1);
  await streams.resetOptions("camera1");
  await streams.remove("camera1");
  return { id: stream.id, own, offered, small };
}

/** Whether the robot is reached over `peer`. Its data channel may be open before its state says so. */
async function isConnected(peer) {
  while (["new", "connecting"].includes(peer?.connectionState)) {
    await new Promise((changed) => peer.addEventListener("connectionstatechange", changed, { once: true }));
  }
  return peer?.connectionState === "connected";
}
