#![allow(warnings)]
use std::path::{Path,PathBuf};
use lint::{Context, Exists, check};
#[derive(Debug)] struct F(PathBuf);
impl Exists for F {
    fn exists(&self,_f:&str,p:&str)->Option<bool>{ if self.0.join(p).exists(){Some(true)}else{None} }
    fn compose_files(&self,_:&str)->Vec<String>{
        let mut v:Vec<_>=std::fs::read_dir(&self.0).unwrap().flatten().map(|e|e.file_name().into_string().unwrap()).filter(|n|(n.starts_with("compose")||n.starts_with("docker-compose"))&&(n.ends_with(".yml")||n.ends_with(".yaml"))).collect(); v.sort();
        v.iter().map(|n|std::fs::read_to_string(self.0.join(n)).unwrap_or_default()).collect() }
    fn text(&self,_f:&str,p:&str)->Option<String>{ std::fs::read_to_string(self.0.join(p)).ok() }
}
fn walk(d:&Path,out:&mut Vec<PathBuf>){ let mut e:Vec<_>=std::fs::read_dir(d).unwrap().flatten().map(|e|e.path()).collect(); e.sort(); for p in e { if p.is_dir(){walk(&p,out)} else if p.extension().is_none_or(|x|x!="json"){out.push(p)} } }
#[test] fn all() {
    let compat=pins::parse_compat("c",include_str!("../../../versions/compat.toml")).unwrap();
    let mut s=String::new();
    for base in std::env::var("BASES").unwrap().split(' ') {
        let mut fs=vec![]; walk(Path::new(base),&mut fs);
        for f in fs { let Ok(b)=std::fs::read(&f) else{continue}; let Ok(t)=String::from_utf8(b) else{continue};
            let dir=F(f.parent().unwrap().to_owned()); let name=f.file_name().unwrap().to_str().unwrap();
            for h in check(name,&t,Context{compat:Some(&compat),today:Some("2026-11-29"),exists:Some(&dir),..Context::default()}) {
                s+=&format!("{}:{}: {}: {} [{}]\n", f.display().to_string().replace("/work/r/",""), h.line, h.severity.name(), h.message, h.rule.id);
            } } }
    std::fs::write(std::env::var("OUT").unwrap(), s).unwrap();
}
