//! JSON output matches the published schemas.

use serde_json::Value;

use crate::dsl::Project;

pub(crate) fn check(project: &Project, document: &str, instances: &[Value]) {
    let schema: Value =
        serde_json::from_str(&project.run(&format!("schema {document}")).expect(0).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(!instances.is_empty());
    for instance in instances {
        let errors: Vec<String> = validator
            .iter_errors(instance)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{document}");
    }
    assert!(
        !validator.is_valid(&serde_json::json!({ "schema": "x" })),
        "{document}: the schema refuses wrong documents"
    );
}

#[test]
fn documents_keep_to_their_schemas() {
    let project = Project::new();
    let plan = project.run("plan --track locked-spoof --format json").expect(0).stdout;
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["schema"], 2);
    check(&project, "plan", &[plan]);

    let built = project.run("--track ollama --rehearse --progress json").expect(0);
    let events: Vec<Value> = built
        .stderr
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    check(&project, "event", &events);
    project.run("--track locked-spoof --mirror docker.io=127.0.0.1:1").expect(5);
    check(&project, "record", &project.records());

    let verified = project.run("verify dist/rehearsal-ollama --format json").expect(0).stdout;
    check(&project, "verify", &[serde_json::from_str(&verified).unwrap()]);

    let linted = project.run("lint --format json").expect(0).stdout;
    check(&project, "lint", &[serde_json::from_str(&linted).unwrap()]);
    let asked = "outdated ollama --format json --mirror docker.io=127.0.0.1:1";
    let asked = project.run(asked).expect(5).stdout;
    check(&project, "outdated", &[serde_json::from_str(&asked).unwrap()]);
}
