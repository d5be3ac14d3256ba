import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.MetadataUtils;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import proto.rpc.v1.Auth;
import proto.rpc.v1.AuthServiceGrpc;
import viam.component.board.v1.Board;
import viam.component.board.v1.BoardServiceGrpc;
import viam.component.motor.v1.Motor;
import viam.component.motor.v1.MotorServiceGrpc;
import viam.robot.v1.Robot;
import viam.robot.v1.RobotServiceGrpc;

/**
 * Dials a machine directly with gRPC for Java, as a client library does: the key for a token, the token with each call.
 * Prints what it saw as JSON.
 *
 * <p>Use: Dial HOST KEY_ID|- KEY|-
 */
public final class Dial {
    private static final int TICKS = 3;
    private static final long PATIENCE_S = 60;

    public static void main(String[] arguments) throws InterruptedException {
        var channel = NettyChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
        try {
            System.out.println(play(channel, arguments[1], arguments[2]));
        } catch (StatusRuntimeException error) {
            System.out.printf("{\"failed\": \"%s\"}%n", error.getStatus().getCode());
        } finally {
            channel.shutdownNow().awaitTermination(PATIENCE_S, TimeUnit.SECONDS);
        }
    }

    private static String play(Channel bare, String keyId, String key) {
        var channel = authenticated(bare, keyId, key);
        var robot = RobotServiceGrpc.newBlockingStub(channel).withDeadlineAfter(PATIENCE_S, TimeUnit.SECONDS);
        var motor = MotorServiceGrpc.newBlockingStub(channel).withDeadlineAfter(PATIENCE_S, TimeUnit.SECONDS);

        List<String> names = new ArrayList<>();
        robot.resourceNames(Robot.ResourceNamesRequest.getDefaultInstance()).getResourcesList()
                .forEach(one -> names.add("\"" + one.getName() + "\""));
        Collections.sort(names);

        motor.goFor(Motor.GoForRequest.newBuilder().setName("wheel").setRpm(100).setRevolutions(0.5).build());
        var moved = motor.getPosition(Motor.GetPositionRequest.newBuilder().setName("wheel").build());
        var refused = "nothing";
        try {
            motor.getPosition(Motor.GetPositionRequest.newBuilder().setName("nobody").build());
        } catch (StatusRuntimeException error) {
            refused = error.getStatus().getCode().name();
        }

        int ticks = readAndCancel(channel);
        // The machine knows of the cancellation a moment later.
        int left = 1;
        while (left > 0) {
            left = (int) robot.getOperations(Robot.GetOperationsRequest.getDefaultInstance()).getOperationsList()
                    .stream().filter(one -> one.getMethod().endsWith("StreamTicks")).count();
        }
        return String.format(
                "{\"resources\": [%s], \"moved\": %s, \"refused\": \"%s\", \"ticks\": %d, \"left\": %d}",
                String.join(", ", names), moved.getPosition(), refused, ticks, left);
    }

    /** Reads a few ticks of a stream without end, and cancels it. */
    private static int readAndCancel(Channel channel) {
        var context = Context.current().withCancellation();
        var before = context.attach();
        try {
            var request = Board.StreamTicksRequest.newBuilder().setName("board").addPinNames("button").build();
            var stream = BoardServiceGrpc.newBlockingStub(channel).streamTicks(request);
            int ticks = 0;
            while (ticks < TICKS && stream.hasNext()) {
                if (stream.next().getPinName().equals("button")) ticks++;
            }
            return ticks;
        } finally {
            context.detach(before);
            context.cancel(null);
        }
    }

    private static Channel authenticated(Channel bare, String keyId, String key) {
        var metadata = new Metadata();
        metadata.put(named("viam_client"), "java;none;v0.0.0");
        if (!keyId.equals("-")) {
            var credentials = Auth.Credentials.newBuilder().setType("api-key").setPayload(key);
            var request = Auth.AuthenticateRequest.newBuilder().setEntity(keyId).setCredentials(credentials).build();
            var token = AuthServiceGrpc.newBlockingStub(bare).withDeadlineAfter(PATIENCE_S, TimeUnit.SECONDS)
                    .authenticate(request).getAccessToken();
            metadata.put(named("authorization"), "Bearer " + token);
        }
        return ClientInterceptors.intercept(bare, MetadataUtils.newAttachHeadersInterceptor(metadata));
    }

    private static Metadata.Key<String> named(String name) {
        return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
    }
}
