//! Java in a computer: it trusts by a store of its own.

use std::path::Path;

use agentenv_tests::{Bundle, Home, PySite};

/// Asks for each URL, and says what came of it.
const FETCH: &str = r#"
import java.net.URI;
import java.net.http.*;

public class Fetch {
    public static void main(String[] urls) throws Exception {
        for (String url : urls) {
            String said;
            try {
                var request = HttpRequest.newBuilder(URI.create(url)).build();
                said = "" + HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).statusCode();
            } catch (java.io.IOException error) {
                said = error.toString();
            }
            System.out.println(url + " " + said);
        }
    }
}
"#;

/// A server whose certificate nobody has signed, which curl reaches; then the program.
const SCRIPT: &str = r#"
set -e
cd /tmp
cat > Fetch.java
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out own.pem -days 2 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost 2> /dev/null
openssl s_server -accept 8443 -key key.pem -cert own.pem -www > /dev/null 2>&1 &
trap "kill $!" EXIT
for try in $(seq 200); do
    curl --silent --insecure --output /dev/null https://localhost:8443/ && break
    sleep 0.1
done
java Fetch.java https://alpha.test/ https://localhost:8443/ https://example.com/
keytool -list -cacerts -storepass changeit
"#;

#[test]
#[expect(clippy::print_stderr, reason = "a test that is not run says so")]
fn java_trusts_the_sites_and_nobody_else() {
    if !Path::new("/usr/bin/keytool").exists() {
        eprintln!("not run: this machine has no JDK (`apt-get install openjdk-17-jdk-headless`)");
        return;
    }
    let home = Home::empty();
    home.put(&PySite::new("alpha").bundle());
    home.put(&Bundle::new("format = 1\nkind = \"computer\"\nname = \"pc\"\n"));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = [\"alpha\"]\ncomputers = [\"pc\"]\n",
    ));
    let deploy = home.deploy("work");
    let script = SCRIPT.replace("cat > Fetch.java", &format!("cat > Fetch.java <<'END'\n{FETCH}END"));
    let said = deploy.exec("pc", &["sh", "-c", &script]);
    let said = said.ok();
    let of =
        |url: &str| said.lines().find_map(|line| line.strip_prefix(url)).unwrap_or_else(|| panic!("{url}: {said}"));
    assert_eq!(of("https://alpha.test/"), " 200");
    assert!(of("https://localhost:8443/").contains("PKIX path building failed"), "{said}");
    assert!(!of("https://example.com/").contains("200"), "{said}");
    // Sealed as Java seals it, and nothing but the deploy's own authority in it.
    assert!(said.contains("Your keystore contains 1 entry"), "{said}");
    deploy.close();
}
